//! Packs the files that CUDA kernels may include into the library: their comments and indentation
//! go, spaces in a row become one, lines stay where they are, for the messages of compilers; then
//! LZ4's block format, but for offsets: of 15 bits in two bytes or, where the highest of those is
//! set, of 23 in three.

const std = @import("std");

/// To add a file, add it here; kernels include it by its last name.
pub const names = [_][]const u8{
    "half.h",
    "intmath.h",
    "vecmath.h",
    "philox.h",
    "cast.h",
    "cuda/device.h",
    "cuda/block.h",
    "cuda/map.h",
    "cuda/fold.h",
    "cuda/scan.h",
    "cuda/rows.h",
    "cuda/sort.h",
    "cuda/move.h",
    "cuda/random.h",
    "cuda/matmul.h",
};

/// A C header that defines RM_FILES_BYTES, RM_FILES_COUNT and RM_FILES, the packed bytes of each
/// file's name, a 0, its text, a 0; and RM_FILES_STAMP, which changes with the files' texts.
pub fn pack(b: *std.Build) ![]const u8 {
    var all: std.ArrayList(u8) = .empty;
    var stamp = std.hash.Fnv1a_32.init();
    for (names) |name| {
        const path = b.fmt("shim/{s}", .{name});
        const text = try b.build_root.handle.readFileAlloc(
            b.graph.io,
            path,
            b.allocator,
            .limited(1 << 20),
        );
        stamp.update(text);
        try all.appendSlice(b.allocator, std.fs.path.basename(name));
        try all.append(b.allocator, 0);
        try appendBare(b.allocator, &all, text);
        try all.append(b.allocator, 0);
    }
    const packed_bytes = try compress(b.allocator, all.items);
    var out: std.ArrayList(u8) = .empty;
    try out.appendSlice(b.allocator, b.fmt("#define RM_FILES_BYTES {d}\n", .{all.items.len}));
    try out.appendSlice(b.allocator, b.fmt("#define RM_FILES_COUNT {d}\n", .{names.len}));
    try out.appendSlice(b.allocator, b.fmt("#define RM_FILES_STAMP {d}u\n", .{stamp.final()}));
    try out.appendSlice(b.allocator, "#define RM_FILES");
    for (packed_bytes, 0..) |byte, i| {
        if (i % 32 == 0) try out.appendSlice(b.allocator, " \\\n");
        try out.appendSlice(b.allocator, b.fmt("{d},", .{byte}));
    }
    try out.append(b.allocator, '\n');
    return out.items;
}

/// Appends C without comments, without what lines begin with, and with one space for several.
fn appendBare(gpa: std.mem.Allocator, out: *std.ArrayList(u8), text: []const u8) !void {
    var i: usize = 0;
    var quote: u8 = 0;
    var begins = true;
    while (i < text.len) : (i += 1) {
        const c = text[i];
        const next = if (i + 1 < text.len) text[i + 1] else 0;
        if (quote == 0 and c == '/' and next == '*') {
            const end = std.mem.indexOfPos(u8, text, i + 2, "*/") orelse return error.OpenComment;
            for (i..end) |at| {
                // A macro goes on after a comment of several lines.
                if (text[at] == '\n') try out.appendSlice(gpa, if (text[at - 1] == '\\') "\\\n" else "\n");
            }
            // As the standard has it, a comment is a space.
            if (!begins) try out.append(gpa, ' ');
            i = end + 1;
            continue;
        }
        if (quote == 0 and c == '/' and next == '/') {
            i = (std.mem.indexOfScalarPos(u8, text, i, '\n') orelse text.len) - 1;
            continue;
        }
        if (quote == 0 and c == ' ' and (begins or next == ' ')) continue;
        begins = c == '\n';
        try out.append(gpa, c);
        if (quote != 0 and c == '\\' and i + 1 < text.len) {
            i += 1;
            try out.append(gpa, next);
        } else if (c == quote) {
            quote = 0;
        } else if (quote == 0 and (c == '"' or c == '\'' and !std.ascii.isAlphanumeric(text[i -| 1]))) {
            quote = c;
        }
    }
}

/// Where what follows was before, and for how long they are the same.
const Match = struct {
    back: usize = 0,
    length: usize = 0,

    /// The bytes that it saves.
    fn gain(match: Match) usize {
        const cost: usize = if (match.back < 32768) 3 else 4;
        return match.length -| cost;
    }
};

/// The texts so far, by what four bytes begin with: the last place of each hash, and for each place
/// the one before it.
const Places = struct {
    text: []const u8,
    last: []u32,
    before: []u32,
    /// Places below this are known.
    known: usize = 0,

    const none = std.math.maxInt(u32);

    fn init(gpa: std.mem.Allocator, text: []const u8) !Places {
        const last = try gpa.alloc(u32, 1 << 16);
        @memset(last, none);
        return .{ .text = text, .last = last, .before = try gpa.alloc(u32, text.len) };
    }

    fn find(places: *Places, i: usize) Match {
        const text = places.text;
        while (places.known < i) : (places.known += 1) {
            const hash = hashOf(text, places.known);
            places.before[places.known] = places.last[hash];
            places.last[hash] = @intCast(places.known);
        }
        var best: Match = .{};
        var at = places.last[hashOf(text, i)];
        var tries: usize = 0;
        while (at != none and i - at < 1 << 23 and tries < 256) : (tries += 1) {
            var length: usize = 0;
            while (i + length + 5 < text.len and text[at + length] == text[i + length]) length += 1;
            const match: Match = .{ .back = i - at, .length = length };
            if (match.gain() > best.gain()) best = match;
            at = places.before[at];
        }
        return best;
    }
};

/// Tokens of so many literals and a match of at least 4 bytes, up to 2^23 - 1 back.
fn compress(gpa: std.mem.Allocator, text: []const u8) ![]const u8 {
    var places = try Places.init(gpa, text);
    var out: std.ArrayList(u8) = .empty;
    var literals: usize = 0;
    var i: usize = 0;
    // The format wants the last 5 bytes to be literals, and no match to begin in the last 12.
    while (i + 13 < text.len) {
        const match = places.find(i);
        // One that begins a byte later may save more.
        if (match.length == 0 or places.find(i + 1).gain() > match.gain()) {
            i += 1;
            continue;
        }
        try appendSequence(gpa, &out, text[literals..i], match.back, match.length);
        i += match.length;
        literals = i;
    }
    try appendSequence(gpa, &out, text[literals..], 0, 4);
    return out.items;
}

fn hashOf(text: []const u8, at: usize) usize {
    return std.mem.readInt(u32, text[at..][0..4], .little) *% 2654435761 >> 16;
}

/// With `back` 0, literals alone.
fn appendSequence(gpa: std.mem.Allocator, out: *std.ArrayList(u8), literals: []const u8, back: usize, length: usize) !void {
    const high: u8 = @intCast(@min(literals.len, 15));
    const low: u8 = @intCast(@min(length - 4, 15));
    try out.append(gpa, high << 4 | low);
    try appendRest(gpa, out, literals.len);
    try out.appendSlice(gpa, literals);
    if (back == 0) return;
    try out.append(gpa, @intCast(back & 255));
    try out.append(gpa, @intCast(back >> 8 & 127 | @as(usize, if (back < 32768) 0 else 128)));
    if (back >= 32768) try out.append(gpa, @intCast(back >> 15));
    try appendRest(gpa, out, length - 4);
}

/// What a count has beyond the 15 that its half of a token holds.
fn appendRest(gpa: std.mem.Allocator, out: *std.ArrayList(u8), count: usize) !void {
    if (count < 15) return;
    var rest = count - 15;
    while (rest >= 255) : (rest -= 255) try out.append(gpa, 255);
    try out.append(gpa, @intCast(rest));
}
