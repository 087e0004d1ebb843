//! Embeds the headers that CUDA kernels may include: NVRTC reads no files, but takes texts by name.

const std = @import("std");

/// The embedded headers, by their paths in shim/. Kernels include them by their base names.
/// The TypeScript scripts read this list too.
pub const headers = [_][]const u8{
    "math/float16.h",
    "math/intmath.h",
    "math/intmath_type.h",
    "math/float_core.h",
    "math/float_core_type.h",
    "math/float_division.h",
    "math/float_exp.h",
    "math/float_exp_type.h",
    "math/float_log.h",
    "math/float_pow.h",
    "math/float_trig.h",
    "math/float_arc.h",
    "math/float_arc_type.h",
    "math/float_erf.h",
    "math/vecmath.h",
    "math/philox.h",
    "math/cast.h",
    "cuda/kernels/device.h",
    "cuda/kernels/block.h",
    "cuda/kernels/narrow_math.h",
    "cuda/kernels/map.h",
    "cuda/kernels/reduce.h",
    "cuda/kernels/scan.h",
    "cuda/kernels/softmax_norm.h",
    "cuda/kernels/sort.h",
    "cuda/kernels/gather_scatter.h",
    "cuda/kernels/random.h",
    "cuda/kernels/matmul.h",
    "cuda/kernels/mma.h",
    "cuda/kernels/attention.h",
};

/// C initialisers, `{"name", "text"},` for each header, with one string literal per line of text.
pub fn initialisers(b: *std.Build) ![]const u8 {
    const gpa = b.allocator;
    var out: std.ArrayList(u8) = .empty;
    for (headers) |path| {
        const file = b.fmt("shim/{s}", .{path});
        const text = try b.build_root.handle.readFileAlloc(b.graph.io, file, gpa, .limited(1 << 20));
        try out.appendSlice(gpa, b.fmt("{{\"{s}\",\n", .{std.fs.path.basename(path)}));
        var lines = std.mem.splitScalar(u8, text, '\n');
        while (lines.next()) |line| {
            try out.append(gpa, '"');
            for (line) |byte| try appendEscaped(b, &out, byte);
            // The last line has no end.
            try out.appendSlice(gpa, if (lines.peek() == null) "\"\n" else "\\n\"\n");
        }
        try out.appendSlice(gpa, "},\n");
    }
    return out.items;
}

/// Appends one byte of a C string literal.
fn appendEscaped(b: *std.Build, out: *std.ArrayList(u8), byte: u8) !void {
    if (byte == '"' or byte == '\\') try out.append(b.allocator, '\\');
    if (byte >= 32 and byte < 127) return out.append(b.allocator, byte);
    // Three octal digits, so that a digit after them stays a character of its own.
    try out.appendSlice(b.allocator, b.fmt("\\{o:0>3}", .{byte}));
}
