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
    "math/special/special_coefficients.h",
    "math/special/special_functions.h",
    "math/vecmath.h",
    "math/complex/complex_double.h",
    "math/complex/complex_math.h",
    "math/complex/complex_ops.h",
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
    "cuda/kernels/complex.h",
    "cuda/kernels/matmul.h",
    "cuda/kernels/mma.h",
    "cuda/kernels/attention.h",
    "cuda/kernels/quantized.h",
};

/// A space instead of each comment, and its line ends, so that messages name the same lines. Comments
/// would be a quarter of the stream. scripts/gpu/embedded_headers.ts does the same.
fn appendCode(gpa: std.mem.Allocator, to: *std.ArrayList(u8), text: []const u8) !void {
    var rest = text;
    while (std.mem.indexOf(u8, rest, "/*")) |begin| {
        const length = std.mem.indexOf(u8, rest[begin..], "*/").? + 2;
        try to.appendSlice(gpa, rest[0..begin]);
        try to.append(gpa, ' ');
        for (rest[begin..][0..length]) |byte| if (byte == '\n') try to.append(gpa, byte);
        rest = rest[begin + length ..];
    }
    try to.appendSlice(gpa, rest);
}

/// C constants: the number of headers, and a DEFLATE stream of their names and texts, each with a 0
/// at its end. The texts are a quarter of a megabyte.
pub fn constants(b: *std.Build) ![]const u8 {
    const gpa = b.allocator;
    var texts: std.ArrayList(u8) = .empty;
    for (headers) |path| {
        const file = b.fmt("shim/{s}", .{path});
        const text = try b.build_root.handle.readFileAlloc(b.graph.io, file, gpa, .limited(1 << 20));
        try texts.appendSlice(gpa, std.fs.path.basename(path));
        try texts.append(gpa, 0);
        try appendCode(gpa, &texts, text);
        try texts.append(gpa, 0);
    }
    const flate = std.compress.flate;
    const window = try gpa.alloc(u8, flate.max_window_len);
    var stream: std.Io.Writer = .fixed(try gpa.alloc(u8, texts.items.len + 1024));
    var compress: flate.Compress = try .init(&stream, window, .raw, .best);
    try compress.writer.writeAll(texts.items);
    try compress.finish();
    const format = "enum {{ COUNT = {d}, LENGTH = {d} }};\nstatic const unsigned char compressed[] = {{";
    var out: std.ArrayList(u8) = .empty;
    try out.appendSlice(gpa, b.fmt(format, .{ headers.len, texts.items.len }));
    for (stream.buffered(), 0..) |byte, i| {
        try out.appendSlice(gpa, b.fmt("{s}{d},", .{ if (i % 32 == 0) "\n" else "", byte }));
    }
    try out.appendSlice(gpa, "\n};\n");
    return out.items;
}
