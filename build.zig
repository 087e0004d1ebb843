//! Builds the native shim: `zig build` for this machine into zig-out/lib, `zig build all` for every
//! supported target into zig-out/lib/<platform>-<arch>, `zig build ptx` the ahead-of-time compiled
//! CUDA kernels into zig-out/lib. `all` includes ptx if deno is found. `zig build sanitized` builds for
//! the tests of this machine into zig-out/sanitized.

const std = @import("std");
const embed = @import("shim/cuda/modules/embed.zig");

/// Memory-bound loops, compiled once. They are not unrolled, but aligned: a short loop that crosses a
/// cache line takes a quarter longer.
const memory_bound = [_][]const u8{
    "cpu/index/gather_scatter.c",
    "cpu/index/ravel_index.c",
    "cpu/index/take_along_axis.c",
    "cpu/index/nonzero.c",
    "cpu/sets/unique.c",
    "cpu/sets/isin.c",
    "cpu/sets/scatter_reduce.c",
    "distributed/reductions.c",
};

/// Code that every call runs, and other code that has no use for vectors, compiled once.
const per_call = [_][]const u8{
    "core/plan.c",
    "program/program.c",
    "core/run.c",
};

/// Control code and the CUDA host code, compiled once and for size.
const compact = [_][]const u8{
    "cpu/complex/complex_block.c",
    "cpu/conv/conv_last.c",
    "cpu/conv/conv_transpose.c",
    "cpu/conv/conv_weight.c",
    "cpu/deviates.c",
    "core/api.c",
    "core/environment.c",
    "core/error.c",
    "core/isa.c",
    "core/threads.c",
    "core/buffers.c",
    "core/files.c",
    "program/node_api.c",
    "program/queue.c",
    "distributed/compare.c",
    "distributed/distributed.c",
    "distributed/messages.c",
    "distributed/mpi.c",
    "distributed/post.c",
    "distributed/requests.c",
    "distributed/world.c",
    "cpu/matmul.c",
    "cpu/blas.c",
    "cpu/linalg/lapack.c",
    "cpu/fft/fft_plan.c",
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
    "cuda/fft.c",
    "cuda/fft_plans.c",
    "cuda/solver.c",
    "cuda/nccl.c",
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

/// Compiled once per instruction set: loops that profit from unrolling.
const unrolled = [_][]const u8{
    "cpu/reduce/reduce_minmax.c",
    "cpu/softmax_norm/softmax_norm.c",
    "cpu/random.c",
};

/// Compiled once per instruction set.
const kernels = [_][]const u8{
    "cpu/kernels.c",
    "cpu/reduce/reduce.c",
    "cpu/reduce/reduce_load.c",
    "cpu/reduce/reduce_float.c",
    "cpu/gemm/gemm_kernels.c",
    "cpu/gemm/gemm_convert.c",
    "cpu/gemm/gemm_small.c",
    "cpu/gemm/gemm_vector.c",
    "cpu/gemm/gemm_packed.c",
    "cpu/gemm/gemm_packed_kernels.c",
    "cpu/gemm/gemm_workspace.c",
    "cpu/attention/attention_few.c",
    "cpu/attention/attention_panels.c",
    "cpu/attention/attention_rows.c",
    "cpu/attention/rope.c",
    "cpu/conv/conv.c",
    "cpu/conv/conv_pack.c",
    "cpu/conv/conv_depthwise.c",
    "cpu/conv/conv_finish.c",
    "cpu/conv/conv_winograd.c",
    "cpu/conv/conv_gather.c",
    "cpu/image/resample.c",
    "cpu/image/max_pool.c",
    "cpu/recurrent/recurrent.c",
    "cpu/quant/dequantize.c",
    "cpu/quant/conv_bytes.c",
    "cpu/quant/linear_int8.c",
    "cpu/quant/linear_nibbles.c",
    "cpu/quant/quantize.c",
    "cpu/quant/quantize_dynamic.c",
    "cpu/quant/quant_tiles.c",
};

/// Compiled once per instruction set and for size: they divide the work of kernels.
const divisions = [_][]const u8{
    "cpu/gemm/gemm.c",
    "cpu/attention/attention.c",
    "cpu/attention/attention_backward.c",
    "cpu/quant/linear_quantized.c",
};

/// Compiled once per instruction set: many short loops over contiguous elements, with vectors. For size,
/// they would be larger.
const small_loops = [_][]const u8{
    "cpu/map/map_kernels.c",
};

/// Compiled once per instruction set: what is around those loops.
const small_control = [_][]const u8{
    "cpu/map/map.c",
    "cpu/map/map_op.c",
    "cpu/map/chain.c",
    "cpu/map/chain_operands.c",
    "cpu/map/chain_read.c",
    "cpu/map/chain_strip.c",
    "cpu/map/map_simplify.c",
    "cpu/index/indices.c",
};

/// Compiled once per instruction set except AVX-512, with the flags of `kernels`: as fast with half the width, or rare.
const shared_kernels = [_][]const u8{
    "cpu/reduce/reduce_int.c",
    "cpu/image/roi_align.c",
    "cpu/image/grid_sample.c",
    "cpu/sort/sample.c",
};

/// Compiled once per instruction set except AVX-512, which makes them hardly faster, or which are not
/// worth a third copy (docs/adr/0028-room-in-the-packages.md).
const shared = [_][]const u8{
    "cpu/reduce/scan.c",
    "cpu/map/cast_kernels.c",
    "cpu/deviate_loops.c",
};

/// The same, and for size: on other machines than x86-64 there is room.
const shared_compact = [_][]const u8{
    "cpu/sets/search.c",
    "cpu/sets/histogram.c",
    "cpu/sets/interp.c",
    "cpu/fft/convolve.c",
    "cpu/linalg/linalg_kernels.c",
};

/// For AVX-512 the names in files that it shares are those of AVX2.
const shared_names = [_][]const u8{
    "-Drm_scan_v4=rm_scan_v3",
    "-Drm_copy_block_v4=rm_copy_block_v3",
    "-Drm_store_non_temporal_v4=rm_store_non_temporal_v3",
    "-Drm_choose_int_sum_v4=rm_choose_int_sum_v3",
    "-Drm_choose_int_mean_v4=rm_choose_int_mean_v3",
    "-Drm_choose_int_product_v4=rm_choose_int_product_v3",
    "-Drm_choose_count_v4=rm_choose_count_v3",
    "-Drm_roi_align_v4=rm_roi_align_v3",
    "-Drm_grid_sample_v4=rm_grid_sample_v3",
    "-Drm_sample_rows_v4=rm_sample_rows_v3",
    "-Drm_search_indices_v4=rm_search_indices_v3",
    "-Drm_bins_v4=rm_bins_v3",
    "-Drm_map_shared_kernel_v4=rm_map_shared_kernel_v3",
    "-Drm_map_shared_scalar_kernels_v4=rm_map_shared_scalar_kernels_v3",
    "-Drm_casts_v4=rm_casts_v3",
    "-Drm_interpolate_v4=rm_interpolate_v3",
    "-Drm_deviate_loops_v4=rm_deviate_loops_v3",
    "-Drm_partition_v4=rm_partition_v3",
    "-Drm_quantile_v4=rm_quantile_v3",
    "-Drm_mode_v4=rm_mode_v3",
    "-Drm_fft_v4=rm_fft_v3",
    "-Drm_convolve_v4=rm_convolve_v3",
    "-Drm_complex_map_v4=rm_complex_map_v3",
    "-Drm_linalg_tables_v4=rm_linalg_tables_v3",
    "-Drm_norm_backward_v4=rm_norm_backward_v3",
};

/// The folders of headers, which are included by base name.
const include_folders = [_][]const u8{
    "shim/include",
    "shim/core",
    "shim/program",
    "shim/distributed",
    "shim/math",
    "shim/math/complex",
    "shim/math/special",
    "shim/cpu/map",
    "shim/cpu/reduce",
    "shim/cpu/sets",
    "shim/cpu/attention",
    "shim/cpu/complex",
    "shim/cpu/gemm",
    "shim/cpu/conv",
    "shim/cpu/quant",
    "shim/cpu/index",
    "shim/cpu/softmax_norm",
    "shim/cpu/sort",
    "shim/cpu/linalg",
    "shim/cpu/eigen",
    "shim/cpu/fft",
    "shim/cuda",
    "shim/cuda/memory",
    "shim/cuda/libraries",
};

/// Algorithms that call the vector kernels of linear algebra, compiled once.
const algorithms = [_][]const u8{
    "cpu/linalg/linalg.c",
    "cpu/linalg/linalg_real.c",
    "cpu/linalg/linalg_complex.c",
    "cpu/eigen/diagonalize.c",
};

const flags = [_][]const u8{
    "-std=gnu11",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    // Integers wrap. No contraction to fused operations, so that results equal those of other
    // backends bit for bit.
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
    // Loops that call the C library cannot be vectorized.
    "-Wno-pass-failed",
    // Windows formats numbers itself. MinGW's own functions would be 25 kB.
    "-D__USE_MINGW_ANSI_STDIO=0",
};

/// Complex products need no care for infinities, and no function of the compiler's library.
const algorithm_flags = flags ++ [_][]const u8{ "-Os", "-fno-unroll-loops", "-fno-vectorize", "-fno-slp-vectorize", "-fcx-limited-range" };

/// What a WebAssembly module has of the files that are compiled once and for size.
const wasm_compact = [_][]const u8{
    "cpu/complex/complex_block.c",
    "cpu/conv/conv_last.c",
    "cpu/conv/conv_transpose.c",
    "cpu/conv/conv_weight.c",
    "cpu/deviates.c",
    "core/api.c",
    "core/error.c",
    "core/isa.c",
    "cpu/matmul.c",
    "cpu/fft/fft_plan.c",
    "wasm/constants.c",
    "wasm/host.c",
};

/// The oldest supported systems, as zig triples.
const targets = [_]struct { folder: []const u8, triple: []const u8 }{
    .{ .folder = "linux-x64", .triple = "x86_64-linux-gnu.2.17" },
    .{ .folder = "linux-arm64", .triple = "aarch64-linux-gnu.2.17" },
    .{ .folder = "darwin-x64", .triple = "x86_64-macos.11.0" },
    .{ .folder = "darwin-arm64", .triple = "aarch64-macos.11.0" },
    .{ .folder = "win32-x64", .triple = "x86_64-windows-gnu" },
};

/// A source file without code that contains the hash of all headers and is part of every module. zig
/// does not check the headers of objects that it has taken from its cache.
var headers_hash: std.Build.LazyPath = undefined;

fn hashHeaders(b: *std.Build) ![]const u8 {
    const io = b.graph.io;
    var folder = try b.build_root.handle.openDir(io, "shim", .{ .iterate = true });
    defer folder.close(io);
    var sum: u64 = 0;
    var entries = try folder.walk(b.allocator);
    defer entries.deinit();
    while (try entries.next(io)) |entry| {
        if (entry.kind != .file or std.mem.endsWith(u8, entry.basename, ".c")) continue;
        const text = try folder.readFileAlloc(io, entry.path, b.allocator, .limited(1 << 20));
        // The order of directory entries is undefined.
        sum +%= std.hash.Wyhash.hash(std.hash.Wyhash.hash(0, entry.basename), text);
    }
    return b.fmt("/* {x} */\n", .{sum});
}

pub fn build(b: *std.Build) !void {
    const generated = b.addWriteFiles();
    _ = generated.add("embedded_headers.inc", try embed.constants(b));
    headers_hash = generated.add("headers.c", try hashHeaders(b));
    addPtx(b);
    addWasm(b);
    const host = b.resolveTargetQuery(.{});
    for (targets) |target| {
        var query = try std.Target.Query.parse(.{ .arch_os_abi = target.triple });
        // Every x86-64 machine since 2009. Wider vectors are selected at run time.
        if (query.cpu_arch == .x86_64) query.cpu_model = .{ .explicit = &std.Target.x86.cpu.x86_64_v2 };
        const resolved = b.resolveTargetQuery(query);
        const library = addShim(b, resolved, generated.getDirectory(), null);
        const folder = b.fmt("lib/{s}", .{target.folder});
        b.step(target.folder, b.fmt("Build for {s}", .{target.triple}))
            .dependOn(addInstall(b, library, folder));
        all(b).dependOn(addInstall(b, library, folder));
        // The library for this machine is the same one that is shipped.
        if (resolved.result.os.tag == host.result.os.tag and resolved.result.cpu.arch == host.result.cpu.arch) {
            b.getInstallStep().dependOn(addInstall(b, library, "lib"));
            const sanitized = addShim(b, resolved, generated.getDirectory(), bestModel(host.result.cpu));
            b.step("sanitized", "Build for this machine with sanitizers, for tests")
                .dependOn(addInstall(b, sanitized, "sanitized"));
        }
    }
}

/// The x86-64 level of a processor.
fn bestModel(cpu: std.Target.Cpu) *const std.Target.Cpu.Model {
    if (cpu.has(.x86, .avx512bw) and cpu.has(.x86, .avx512vl)) return &std.Target.x86.cpu.x86_64_v4;
    if (cpu.has(.x86, .avx2) and cpu.has(.x86, .fma)) return &std.Target.x86.cpu.x86_64_v3;
    return &std.Target.x86.cpu.x86_64_v2;
}

/// Adds the sanitizers of addresses and of undefined behavior to the C code of a module
/// (docs/adr/0030-one-sanitized-library.md). Programs have to load the runtime of the first one
/// before the library, such as libasan.so of GCC; zig brings that of the second one.
fn sanitize(b: *std.Build, module: *std.Build.Module) void {
    module.optimize = .Debug;
    module.sanitize_c = .full;
    module.strip = false;
    module.omit_frame_pointer = false;
    module.unwind_tables = .@"async";
    // The kernels of one instruction set represent all, in a third of the time to build.
    const more = [_][]const u8{ "-O0", "-fsanitize=address", "-Drm_kernels_v3=rm_kernels_v2", "-Drm_kernels_v4=rm_kernels_v2" };
    for (module.link_objects.items) |object| {
        const list = switch (object) {
            .c_source_file => |file| &file.flags,
            .c_source_files => |files| &files.flags,
            else => continue,
        };
        list.* = std.mem.concat(b.allocator, []const u8, &.{ list.*, &more }) catch @panic("no memory");
    }
}

/// Uses deno from node_modules or from the system.
fn addPtx(b: *std.Build) void {
    const deno = b.findProgram(&.{ "deno", "deno.cmd" }, &.{b.pathFromRoot("node_modules/.bin")}) catch return;
    const run = b.addSystemCommand(&.{ deno, "run", "-A", "--no-check", "scripts/generate/ptx.ts" });
    run.setCwd(b.path("."));
    run.has_side_effects = true;
    b.step("ptx", "Compile the CUDA kernels ahead of time, for machines without NVRTC").dependOn(&run.step);
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

/// The library; sanitized if a processor model is given, whose kernels are then the only ones.
fn addShim(
    b: *std.Build,
    target: std.Build.ResolvedTarget,
    generated: std.Build.LazyPath,
    sanitized: ?*const std.Target.Cpu.Model,
) *std.Build.Step.Compile {
    const module = newModule(b, target);
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &memory_bound, .flags = &(flags ++ [_][]const u8{ "-fno-unroll-loops", "-falign-loops=32" }) });
    module.addCSourceFile(.{ .file = headers_hash });
    module.addIncludePath(generated);
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &per_call, .flags = &(flags ++ [_][]const u8{ "-O2", "-fno-unroll-loops" }) });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &compact, .flags = &(flags ++ .{"-Os"}) });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &algorithms, .flags = &algorithm_flags });
    if (target.result.os.tag == .linux) module.linkSystemLibrary("dl", .{});
    if (target.result.os.tag == .windows) addRuntime(b, module, target);
    // macOS has no CUDA.
    if (target.result.os.tag != .macos) addZstd(b, module, target);
    const sanitizes = sanitized != null;
    if (sanitizes) sanitize(b, module);
    if (target.result.cpu.arch != .x86_64) {
        addKernels(b, module, target, "base", null, sanitizes);
    } else if (sanitizes) {
        addKernels(b, module, target, "v2", sanitized, true);
    } else {
        addKernels(b, module, target, "v2", &std.Target.x86.cpu.x86_64_v2, false);
        addKernels(b, module, target, "v3", &std.Target.x86.cpu.x86_64_v3, false);
        // Few Intel Macs have AVX-512, and no more are made.
        if (target.result.os.tag != .macos) addKernels(b, module, target, "v4", &std.Target.x86.cpu.x86_64_v4, false);
    }
    return b.addLibrary(.{ .name = "rowmajor", .linkage = .dynamic, .root_module = module });
}

/// The kernels as a WebAssembly module, for hosts that open no library. Its memory comes from
/// JavaScript.
fn addWasm(b: *std.Build) void {
    const target = b.resolveTargetQuery(.{
        .cpu_arch = .wasm32,
        .os_tag = .wasi,
        .cpu_model = .{ .explicit = &std.Target.wasm.cpu.generic },
        .cpu_features_add = std.Target.wasm.featureSet(&.{ .simd128, .bulk_memory, .nontrapping_fptoint, .sign_ext, .tail_call }),
    });
    const module = newModule(b, target);
    const loops = flags ++ [_][]const u8{"-fno-unroll-loops"};
    // Without the one that is for MPI.
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = memory_bound[0 .. memory_bound.len - 1], .flags = &loops });
    module.addCSourceFile(.{ .file = headers_hash });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &per_call, .flags = &(loops ++ [_][]const u8{"-O2"}) });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &wasm_compact, .flags = &(flags ++ .{"-Os"}) });
    // The compiler would turn calloc into itself.
    module.addCSourceFile(.{ .file = b.path("shim/wasm/memory.c"), .flags = &(flags ++ [_][]const u8{ "-O2", "-fno-builtin" }) });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &algorithms, .flags = &algorithm_flags });
    addKernels(b, module, target, "base", null, false);
    const program = b.addExecutable(.{ .name = "rowmajor", .root_module = module });
    program.entry = .disabled;
    program.wasi_exec_model = .reactor;
    program.rdynamic = true;
    program.import_memory = true;
    // Reset after a trap.
    module.export_symbol_names = &.{"__stack_pointer"};
    // Before the data, so that an overflow traps.
    program.stack_size = 1 << 18;
    const install = b.addInstallArtifact(program, .{ .dest_dir = .{ .override = .{ .custom = "wasm" } } });
    b.step("wasm", "Build the kernels as a WebAssembly module").dependOn(&install.step);
    b.getInstallStep().dependOn(&install.step);
    all(b).dependOn(&install.step);
}

fn newModule(b: *std.Build, target: std.Build.ResolvedTarget) *std.Build.Module {
    const module = b.createModule(.{
        .target = target,
        .optimize = .ReleaseFast,
        .link_libc = true,
        .strip = true,
        .pic = if (target.result.cpu.arch.isWasm()) null else true,
        .omit_frame_pointer = true,
        .sanitize_c = .off,
        // Exceptions never unwind through this code. The tables would be a twelfth of the library.
        .unwind_tables = .none,
        // Windows may overwrite memory below the stack pointer, even in functions with the calling
        // convention of other systems.
        .red_zone = if (target.result.os.tag == .windows) false else null,
    });
    for (include_folders) |folder| module.addIncludePath(b.path(folder));
    return module;
}

/// The compiler's library with a section for each function. zig's own is one section on Windows, and
/// linked as a whole.
fn addRuntime(b: *std.Build, library: *std.Build.Module, target: std.Build.ResolvedTarget) void {
    const zig_lib = b.graph.zig_lib_directory.path orelse ".";
    const module = b.createModule(.{
        .root_source_file = .{ .cwd_relative = b.pathJoin(&.{ zig_lib, "compiler_rt.zig" }) },
        .target = target,
        .optimize = .ReleaseFast,
        .strip = true,
        .pic = true,
        .unwind_tables = .none,
        .red_zone = false,
    });
    const runtime = b.addLibrary(.{ .name = "runtime", .linkage = .static, .root_module = module });
    runtime.link_function_sections = true;
    runtime.link_data_sections = true;
    library.linkLibrary(runtime);
}

fn addZstd(b: *std.Build, library: *std.Build.Module, target: std.Build.ResolvedTarget) void {
    const module = b.createModule(.{
        .root_source_file = b.path("shim/cuda/modules/decompress.zig"),
        .target = target,
        .optimize = .ReleaseSmall,
        .strip = true,
        .pic = true,
        .unwind_tables = .none,
    });
    const decompress = b.addLibrary(.{ .name = "decompress", .linkage = .static, .root_module = module });
    // Without sections of their own, unused functions of zig's standard library would be linked.
    decompress.link_function_sections = true;
    library.linkLibrary(decompress);
}

/// The kernels for one processor model. Features given as compiler flags would be ignored.
fn addKernels(
    b: *std.Build,
    library: *std.Build.Module,
    target: std.Build.ResolvedTarget,
    comptime isa: []const u8,
    cpu: ?*const std.Target.Cpu.Model,
    sanitized: bool,
) void {
    var query = target.query;
    if (cpu) |model| query.cpu_model = .{ .explicit = model };
    const module = newModule(b, b.resolveTargetQuery(query));
    const old = comptime std.mem.eql(u8, isa, "v2");
    // LLVM would otherwise use half the width of AVX-512. Machines without AVX get smaller code, which
    // is as fast on average; scans and variances over columns take half as long again.
    const avx512 = comptime std.mem.eql(u8, isa, "v4");
    const width: []const u8 = if (avx512) "-mprefer-vector-width=512" else if (old) "-O2" else "-O3";
    const names = if (avx512) shared_names else [_][]const u8{};
    // Many functions differ only in their names.
    // Nor are functions aligned, which are many and short next to their loops, which are aligned.
    const unaligned = if (comptime std.mem.eql(u8, isa, "base")) [_][]const u8{} else [_][]const u8{ "-mllvm", "-align-all-functions=1" };
    const common = flags ++ [_][]const u8{ width, "-DRM_ISA=" ++ isa, "-Xclang", "-fmerge-functions" } ++ names ++ unaligned;
    module.addCSourceFile(.{ .file = headers_hash });
    const no_unrolling = common ++ [_][]const u8{"-fno-unroll-loops"};
    // Machines without AVX get smaller code.
    const small = no_unrolling ++ [_][]const u8{"-Os"};
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &unrolled, .flags = if (old) &small else &common });
    const regular = if (old) &small else &no_unrolling;
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &kernels, .flags = regular });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &divisions, .flags = &small });
    // Two loops request unrolling themselves: half the size, and 5% faster.
    const sorts = no_unrolling ++ (if (old) [_][]const u8{"-Os"} else [_][]const u8{"-falign-loops=32"});
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &.{ "cpu/sort/sort.c", "cpu/sort/topk.c", "cpu/sort/quicksort.c" }, .flags = &sorts });
    // These loops are many, and vectors need no unrolling on top: a quarter of the size. Nor do
    // remainders need narrower vectors, unless they can be more than 15 elements.
    const epilogues = [_][]const u8{ "-mllvm", "-epilogue-vectorization-minimum-VF=32" };
    const maps = no_unrolling ++ epilogues;
    const small_maps = small ++ epilogues;
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &small_loops, .flags = &maps });
    module.addCSourceFiles(.{ .root = b.path("shim"), .files = &small_control, .flags = if (old) &small_maps else &maps });
    if (!avx512) {
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &.{ "cpu/map/map_shared_kernels.c", "cpu/map/block_copy.c" }, .flags = &maps });
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &shared_kernels, .flags = regular });
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &shared, .flags = if (old) &small_maps else &maps });
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &.{ "cpu/sort/partition.c", "cpu/sort/quantile.c" }, .flags = &sorts });
        // It chooses itself which loops are unrolled.
        const transforms = no_unrolling ++ [_][]const u8{if (old) "-Os" else "-O2"};
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &.{"cpu/fft/fft.c"}, .flags = &transforms });
        const complex = transforms ++ epilogues;
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &.{"cpu/complex/complex_map.c"}, .flags = &complex });
        module.addCSourceFiles(.{ .root = b.path("shim"), .files = &shared_compact, .flags = if (comptime std.mem.eql(u8, isa, "base")) &no_unrolling else &small });
    }
    if (sanitized) sanitize(b, module);
    // Not a single object: on macOS, joining objects turns hidden symbols into local ones.
    library.linkLibrary(b.addLibrary(.{ .name = "kernels-" ++ isa, .linkage = .static, .root_module = module }));
}
