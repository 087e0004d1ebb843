//! Builds the native shim: `zig build` for this machine into zig-out/lib, `zig build all` for every
//! supported target into zig-out/lib/<platform>-<arch>, `zig build ptx` the kernels for machines
//! without NVRTC into zig-out/lib (with `all`, where there is a deno to write them).

const std = @import("std");
const embed = @import("shim/cuda/modules/embed.zig");

/// Compiled once, its loops not unrolled, as they wait for memory, but aligned: a loop of few
/// instructions that crosses lines of the caches takes a quarter longer.
const sources = [_][]const u8{
    "cpu/index/gather_scatter.c",
    "cpu/index/ravel_index.c",
    "cpu/index/take_along_axis.c",
    "cpu/index/nonzero.c",
};

/// Compiled once and for size: what decides, and CUDA, which waits for devices and files.
const compact = [_][]const u8{
    "core/api.c",
    "core/error.c",
    "core/isa.c",
    "core/plan.c",
    "core/threads.c",
    "core/buffers.c",
    "cpu/matmul.c",
    "cpu/blas.c",
    "cuda/api.c",
    "cuda/error.c",
    "cuda/device.c",
    "cuda/capture.c",
    "cuda/handles.c",
    "cuda/graph.c",
    "cuda/launch.c",
    "cuda/info.c",
    "cuda/blas.c",
    "cuda/blas_handles.c",
    "cuda/memory/allocator.c",
    "cuda/memory/pinned.c",
    "cuda/memory/copies.c",
    "cuda/memory/reads.c",
    "cuda/memory/memory.c",
    "cuda/modules/module.c",
    "cuda/modules/nvrtc.c",
    "cuda/modules/aot.c",
    "cuda/modules/cache.c",
    "cuda/modules/headers.c",
    "cuda/libraries/search.c",
    "cuda/libraries/loading.c",
};

/// Compiled once for each instruction set.
const kernels = [_][]const u8{
    "cpu/kernels.c",
    "cpu/reduce/reduce.c",
    "cpu/reduce/reduce_load.c",
    "cpu/reduce/reduce_float.c",
    "cpu/reduce/reduce_int.c",
    "cpu/reduce/reduce_extreme.c",
    "cpu/reduce/scan.c",
    "cpu/softmax_norm/softmax_norm.c",
    "cpu/gemm/gemm.c",
    "cpu/gemm/gemm_kernels.c",
    "cpu/gemm/gemm_convert.c",
    "cpu/gemm/gemm_small.c",
    "cpu/gemm/gemm_vector.c",
    "cpu/gemm/gemm_workspace.c",
    "cpu/random.c",
};

/// Compiled once for each instruction set: many loops, most of them dense.
const small_loops = [_][]const u8{
    "cpu/map/map.c",
    "cpu/map/map_kernels.c",
    "cpu/map/map_simplify.c",
    "cpu/map/cast_kernels.c",
    "cpu/map/block_copy.c",
    "cpu/index/indices.c",
};

/// The folders of headers, which are included by their plain names.
const folders = [_][]const u8{
    "shim/include",
    "shim/core",
    "shim/math",
    "shim/cpu/map",
    "shim/cpu/reduce",
    "shim/cpu/gemm",
    "shim/cpu/index",
    "shim/cpu/softmax_norm",
    "shim/cpu/sort",
    "shim/cuda",
    "shim/cuda/memory",
    "shim/cuda/libraries",
};

const flags = [_][]const u8{
    "-std=gnu11",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    // Integers wrap, and bits agree with the other backends: no contraction to fused operations.
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
    // Some loops over functions of the C library stay as they are.
    "-Wno-pass-failed",
};

/// The oldest systems that are supported, as zig names them.
const targets = [_]struct { folder: []const u8, triple: []const u8 }{
    .{ .folder = "linux-x64", .triple = "x86_64-linux-gnu.2.17" },
    .{ .folder = "linux-arm64", .triple = "aarch64-linux-gnu.2.17" },
    .{ .folder = "darwin-x64", .triple = "x86_64-macos.11.0" },
    .{ .folder = "darwin-arm64", .triple = "aarch64-macos.11.0" },
    .{ .folder = "win32-x64", .triple = "x86_64-windows-gnu" },
};

/// A source without code that changes with every header, and is part of all that is compiled: the
/// headers of an object that zig has taken from its cache it does not look at the next time.
var headers: std.Build.LazyPath = undefined;

fn headersChange(b: *std.Build) ![]const u8 {
    const io = b.graph.io;
    var folder = try b.build_root.handle.openDir(io, "shim", .{ .iterate = true });
    defer folder.close(io);
    var sum: u64 = 0;
    var entries = try folder.walk(b.allocator);
    defer entries.deinit();
    while (try entries.next(io)) |entry| {
        if (entry.kind != .file or std.mem.endsWith(u8, entry.basename, ".c")) continue;
        const text = try folder.readFileAlloc(io, entry.path, b.allocator, .limited(1 << 20));
        // Folders have no order.
        sum +%= std.hash.Wyhash.hash(std.hash.Wyhash.hash(0, entry.basename), text);
    }
    return b.fmt("/* {x} */\n", .{sum});
}

pub fn build(b: *std.Build) !void {
    const generated = b.addWriteFiles();
    _ = generated.add("embedded_headers.inc", try embed.initialisers(b));
    headers = generated.add("headers.c", try headersChange(b));
    addPtx(b);
    const host = b.resolveTargetQuery(.{});
    for (targets) |target| {
        var query = try std.Target.Query.parse(.{ .arch_os_abi = target.triple });
        // Every x86-64 machine since 2009; wider vectors need a choice at run time.
        if (query.cpu_arch == .x86_64) query.cpu_model = .{ .explicit = &std.Target.x86.cpu.x86_64_v2 };
        const resolved = b.resolveTargetQuery(query);
        const library = addShim(b, resolved, generated.getDirectory());
        const folder = b.fmt("lib/{s}", .{target.folder});
        b.step(target.folder, b.fmt("Build for {s}", .{target.triple}))
            .dependOn(addInstall(b, library, folder));
        all(b).dependOn(addInstall(b, library, folder));
        // The library of this machine is the one that is shipped for it.
        if (resolved.result.os.tag == host.result.os.tag and resolved.result.cpu.arch == host.result.cpu.arch) {
            b.getInstallStep().dependOn(addInstall(b, library, "lib"));
        }
    }
}

/// With the deno of node_modules, or of the system.
fn addPtx(b: *std.Build) void {
    const deno = b.findProgram(&.{ "deno", "deno.cmd" }, &.{b.pathFromRoot("node_modules/.bin")}) catch return;
    const run = b.addSystemCommand(&.{ deno, "run", "-A", "--no-check", "scripts/generate/ptx.ts" });
    run.setCwd(b.path("."));
    run.has_side_effects = true;
    b.step("ptx", "Make the kernels for machines without NVRTC").dependOn(&run.step);
    all(b).dependOn(&run.step);
}

fn all(b: *std.Build) *std.Build.Step {
    if (b.top_level_steps.get("all")) |found| return &found.step;
    return b.step("all", "Build for every supported target");
}

fn addInstall(b: *std.Build, library: *std.Build.Step.Compile, folder: []const u8) *std.Build.Step {
    return &b.addInstallArtifact(library, .{
        .dest_dir = .{ .override = .{ .custom = folder } },
        .pdb_dir = .disabled,
        .h_dir = .disabled,
        .implib_dir = .disabled,
    }).step;
}

fn addShim(b: *std.Build, target: std.Build.ResolvedTarget, generated: std.Build.LazyPath) *std.Build.Step.Compile {
    const module = newModule(b, target);
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &sources, .flags = &(flags ++ [_][]const u8{ "-fno-unroll-loops", "-falign-loops=32" }) });
    module.addCSourceFile(.{ .file = headers });
    module.addIncludePath(generated);
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &compact, .flags = &(flags ++ .{"-Os"}) });
    if (target.result.os.tag == .linux) module.linkSystemLibrary("dl", .{});
    if (target.result.cpu.arch == .x86_64) {
        addKernels(b, module, target, "v2", &std.Target.x86.cpu.x86_64_v2);
        addKernels(b, module, target, "v3", &std.Target.x86.cpu.x86_64_v3);
        addKernels(b, module, target, "v4", &std.Target.x86.cpu.x86_64_v4);
    } else addKernels(b, module, target, "base", null);
    return b.addLibrary(.{ .name = "rowmajor", .linkage = .dynamic, .root_module = module });
}

fn newModule(b: *std.Build, target: std.Build.ResolvedTarget) *std.Build.Module {
    const module = b.createModule(.{
        .target = target,
        .optimize = .ReleaseFast,
        .link_libc = true,
        .strip = true,
        .pic = true,
        .omit_frame_pointer = true,
        .sanitize_c = .off,
        // Nothing here throws, nor is thrown through: a twelfth of the library.
        .unwind_tables = .none,
        // Windows leaves nothing alone below the stack, not even for functions that follow the rules
        // of other systems.
        .red_zone = if (target.result.os.tag == .windows) false else null,
    });
    for (folders) |folder| module.addIncludePath(b.path(folder));
    return module;
}

/// The kernels for one processor model: features given as compiler flags would be ignored.
fn addKernels(
    b: *std.Build,
    library: *std.Build.Module,
    target: std.Build.ResolvedTarget,
    comptime level: []const u8,
    cpu: ?*const std.Target.Cpu.Model,
) void {
    var query = target.query;
    if (cpu) |model| query.cpu_model = .{ .explicit = model };
    const module = newModule(b, b.resolveTargetQuery(query));
    const old = comptime std.mem.eql(u8, level, "v2");
    // LLVM would use half of the width of AVX-512 otherwise. Old machines get smaller code: it takes
    // as long in the mean, scans and variances over columns half as long again.
    const width: []const u8 = comptime if (std.mem.eql(u8, level, "v4")) "-mprefer-vector-width=512" else if (old) "-O2" else "-O3";
    // Many functions are the same but for their names.
    const common = flags ++ [_][]const u8{ width, "-DRM_LEVEL=" ++ level, "-Xclang", "-fmerge-functions" };
    module.addCSourceFile(.{ .file = headers });
    // Loops want unrolling, but hardly there.
    const small = common ++ [_][]const u8{"-fno-unroll-loops"};
    const usual = if (old) &small else &common;
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &kernels, .flags = usual });
    // Its two loops that want it say so: half the size, and a twentieth faster.
    const sorts = small ++ [_][]const u8{"-falign-loops=32"};
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &.{"cpu/sort/sort.c"}, .flags = &sorts });
    // The loops there are many, and vectors need no unrolling on top: a quarter of their size; nor
    // narrower vectors for what is left over, unless that can be more than 15 elements.
    const maps = small ++ [_][]const u8{ "-mllvm", "-epilogue-vectorization-minimum-VF=32" };
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &small_loops, .flags = &maps });
    // Not one object: on macOS, joining objects makes local what is hidden.
    library.linkLibrary(b.addLibrary(.{ .name = "kernels-" ++ level, .linkage = .static, .root_module = module }));
}
