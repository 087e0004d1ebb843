//! Zstandard and DEFLATE for the C code, from zig's standard library.

const std = @import("std");
const slack = std.compress.zstd.block_size_max;

// Malformed input is an error. The texts of panics would double the size.
pub const panic = std.debug.no_panic;

comptime {
    @export(&zstd, .{ .name = "rm_zstd_decompress", .visibility = .hidden });
    @export(&flate, .{ .name = "rm_flate_decompress", .visibility = .hidden });
}

/// See headers.c. Matches are read from the output here, too.
fn flate(from: [*]const u8, compressed: usize, to: [*]u8, length: usize) callconv(.c) bool {
    var input: std.Io.Reader = .fixed(from[0..compressed]);
    var output: std.Io.Writer = .fixed(to[0..length]);
    var stream: std.compress.flate.Decompress = .init(&input, .raw, &.{});
    return (stream.reader.streamRemaining(&output) catch return false) == length;
}

/// See aot.c.
fn zstd(from: [*]const u8, compressed: usize, to: [*]u8, length: usize) callconv(.c) bool {
    var input: std.Io.Reader = .fixed(from[0..compressed]);
    var output: std.Io.Writer = .fixed(to[0 .. length + slack]);
    // Matches are read from the output, so the window needs no memory of its own.
    var stream: std.compress.zstd.Decompress = .init(&input, &.{}, .{ .window_len = 1 << 27 });
    return (stream.reader.streamRemaining(&output) catch return false) == length;
}
