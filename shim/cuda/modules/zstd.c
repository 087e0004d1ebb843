/*
 * Decompresses Zstandard (RFC 8878): one frame without a dictionary, whose length is known. The output
 * is the window. zig's own is ten times as much code.
 */
#if !defined(__APPLE__)
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "zstd.h"

enum {
  MAGIC_BYTES = 4,
  MOST_BLOCK = 1 << 17,
  MOST_TABLE_LOG = 9,
  MOST_WEIGHT_LOG = 6,
  MOST_CODE_BITS = 11,
  LITERAL_LENGTHS = 36,
  MATCH_LENGTHS = 53,
  OFFSETS = 32
};

/* Bytes that are left to read. */
typedef struct {
  const uint8_t *at, *end;
} bytes;

static size_t left(const bytes *b) { return (size_t)(b->end - b->at); }

/* The next bytes; those before count as read. */
static bool take(bytes *from, size_t count, bytes *part) {
  if (left(from) < count) return false;
  *part = (bytes){from->at, from->at + count};
  from->at += count;
  return true;
}

/* An integer of a few bytes, the lowest first. */
static bool take_integer(bytes *from, size_t count, uint64_t *value) {
  bytes part;
  if (!take(from, count, &part)) return false;
  *value = 0;
  memcpy(value, part.at, count);
  return true;
}

static int highest_bit(uint32_t x) { return 31 - __builtin_clz(x); }

/* Up to 56 bits from the bit `place` of a stream on; 0 for those behind its end. */
static uint64_t bits_at(const bytes *b, size_t place, int count) {
  const size_t skip = place / 8;
  uint64_t value = 0;
  if (skip + sizeof value <= left(b)) memcpy(&value, b->at + skip, sizeof value);
  else if (skip < left(b)) memcpy(&value, b->at + skip, left(b) - skip);
  return value >> place % 8 & (((uint64_t)1 << count) - 1);
}

/* A stream of bits that is read from its end: how many are left. It is negative after reads of more
 * than there were, which are 0. */
typedef struct {
  bytes from;
  ptrdiff_t left;
} back_bits;

static bool begin_back(back_bits *b, bytes from) {
  if (left(&from) == 0 || from.end[-1] == 0) return false;
  *b = (back_bits){from, (ptrdiff_t)(left(&from) - 1) * 8 + highest_bit(from.end[-1])};
  return true;
}

static uint64_t read_back(back_bits *b, int count) {
  const ptrdiff_t had = b->left;
  b->left -= count;
  if (b->left >= 0) return bits_at(&b->from, (size_t)b->left, count);
  return had <= 0 ? 0 : bits_at(&b->from, 0, (int)had) << -b->left;
}

/* ---- finite state entropy -------------------------------------------------------------------- */

/* What a state stands for, and the next one: `base` and so many bits. */
typedef struct {
  uint16_t base;
  uint8_t symbol, bits;
} state_entry;

typedef struct {
  int log;
  state_entry of[1 << MOST_TABLE_LOG];
} state_table;

/* Makes the table of symbols with these shares of 1 << log; -1 is less than one. */
static bool make_table(state_table *table, const int16_t *shares, int symbols, int log) {
  const uint32_t size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
  uint16_t next[MATCH_LENGTHS + 256];
  uint32_t high = size, at = 0;
  table->log = log;
  for (int s = 0; s < symbols; s++) {
    if (shares[s] == -1) {
      if (high == 0) return false;
      table->of[--high].symbol = (uint8_t)s;
    }
    next[s] = (uint16_t)(shares[s] == -1 ? 1 : shares[s]);
  }
  for (int s = 0; s < symbols; s++) {
    for (int i = 0; i < shares[s]; i++) {
      if (high == 0) return false;
      table->of[at].symbol = (uint8_t)s;
      do at = (at + step) & mask;
      while (at >= high);
    }
  }
  if (at != 0) return false;
  for (uint32_t i = 0; i < size; i++) {
    state_entry *entry = &table->of[i];
    const uint32_t count = next[entry->symbol]++;
    if (count == 0) return false;
    const int bits = log - highest_bit(count);
    entry->bits = (uint8_t)bits;
    entry->base = (uint16_t)((count << bits) - size);
  }
  return true;
}

/* Reads the shares of a table, and makes it. */
static bool read_table(bytes *from, state_table *table, int most_log, int most_symbols) {
  int16_t shares[256];
  size_t place = 4;
  const int log = (int)bits_at(from, 0, 4) + 5;
  if (log > most_log || left(from) == 0) return false;
  int32_t remaining = 1 << log;
  int symbols = 0;
  while (remaining > 0) {
    if (symbols >= most_symbols || place > left(from) * 8) return false;
    const int bits = highest_bit((uint32_t)remaining + 1) + 1;
    const int32_t half = (1 << (bits - 1)) - 1, limit = (1 << bits) - 2 - remaining;
    int32_t value = (int32_t)bits_at(from, place, bits);
    place += (size_t)bits;
    if ((value & half) < limit) {
      value &= half;
      place--;
    } else if (value > half) value -= limit;
    const int32_t share = value - 1;
    remaining -= share < 0 ? -share : share;
    shares[symbols++] = (int16_t)share;
    if (share != 0) continue;
    for (int zeros = 3; zeros == 3;) {
      zeros = (int)bits_at(from, place, 2);
      place += 2;
      if (symbols + zeros > most_symbols) return false;
      for (int i = 0; i < zeros; i++) shares[symbols++] = 0;
    }
  }
  bytes read;
  return remaining == 0 && take(from, (place + 7) / 8, &read) &&
         make_table(table, shares, symbols, log);
}

static uint32_t first_state(const state_table *table, back_bits *b) {
  return (uint32_t)read_back(b, table->log);
}

static uint32_t next_state(const state_table *table, uint32_t state, back_bits *b) {
  const state_entry *entry = &table->of[state];
  return entry->base + (uint32_t)read_back(b, entry->bits);
}

/* ---- literals -------------------------------------------------------------------------------- */

/* A code of `bits` bits and its symbol, for each value of the next `longest` bits. */
typedef struct {
  uint8_t symbol, bits;
} code_entry;

/* What the blocks of a frame leave for the next ones. */
typedef struct {
  int longest;
  code_entry codes[1 << MOST_CODE_BITS];
  bool has_table[3];
  state_table lengths, offsets, matches, weights;
  uint32_t recent[3];
  uint8_t literals[MOST_BLOCK];
} frame;

/* Reads the weights of symbols that two states take turns to give. Returns their number, or -1. */
static int read_weights(frame *f, bytes from, uint8_t *weights, int most) {
  back_bits b;
  if (!read_table(&from, &f->weights, MOST_WEIGHT_LOG, MOST_CODE_BITS + 2)) return -1;
  if (!begin_back(&b, from)) return -1;
  uint32_t states[2];
  for (int i = 0; i < 2; i++) states[i] = first_state(&f->weights, &b);
  if (b.left < 0) return -1;
  for (int count = 0; count < most - 1; count++) {
    uint32_t *state = &states[count % 2];
    weights[count] = f->weights.of[*state].symbol;
    *state = next_state(&f->weights, *state, &b);
    if (b.left >= 0) continue;
    weights[count + 1] = f->weights.of[states[(count + 1) % 2]].symbol;
    return count + 2;
  }
  return -1;
}

static bool read_codes(frame *f, bytes *from) {
  uint8_t weights[256] = {0};
  uint64_t head;
  bytes part;
  int count;
  if (!take_integer(from, 1, &head)) return false;
  if (head < 128) {
    if (!take(from, (size_t)head, &part)) return false;
    count = read_weights(f, part, weights, 255);
    if (count < 0) return false;
  } else {
    count = (int)head - 127;
    if (!take(from, (size_t)(count + 1) / 2, &part)) return false;
    for (int i = 0; i < count; i++) {
      weights[i] = i % 2 ? part.at[i / 2] & 15 : part.at[i / 2] >> 4;
    }
  }
  uint32_t sum = 0;
  for (int i = 0; i < count; i++) {
    if (weights[i] > MOST_CODE_BITS) return false;
    sum += weights[i] > 0 ? 1u << (weights[i] - 1) : 0;
  }
  if (sum == 0) return false;
  /* The last symbol has what is left of a power of two. */
  const int longest = highest_bit(sum) + 1;
  const uint32_t rest = (1u << longest) - sum;
  if (longest > MOST_CODE_BITS || (rest & (rest - 1)) != 0) return false;
  weights[count++] = (uint8_t)(highest_bit(rest) + 1);
  uint32_t at = 0;
  for (int w = 1; w <= longest; w++) {
    for (int s = 0; s < count; s++) {
      if (weights[s] != w) continue;
      for (uint32_t i = 0; i < 1u << (w - 1); i++) {
        f->codes[at++] = (code_entry){(uint8_t)s, (uint8_t)(longest + 1 - w)};
      }
    }
  }
  f->longest = longest;
  return true;
}

static bool read_coded(const frame *f, bytes from, uint8_t *to, size_t count) {
  back_bits b;
  if (!begin_back(&b, from)) return false;
  for (size_t i = 0; i < count; i++) {
    const code_entry entry = f->codes[read_back(&b, f->longest)];
    b.left += f->longest - entry.bits;
    to[i] = entry.symbol;
  }
  return b.left == 0;
}

/* Reads literals, which may be in the input or in the frame. */
static bool read_literals(frame *f, bytes *from, bytes *literals) {
  if (left(from) == 0) return false;
  const int type = from->at[0] & 3, format = from->at[0] >> 2 & 3;
  uint64_t head, streams[3];
  bytes part;
  if (type < 2) {
    const int size = format == 1 ? 2 : format == 3 ? 3 : 1;
    if (!take_integer(from, (size_t)size, &head)) return false;
    const size_t count = (size_t)(head >> (size == 1 ? 3 : 4));
    if (count > MOST_BLOCK) return false;
    if (type == 0) return take(from, count, literals);
    if (!take(from, 1, &part)) return false;
    memset(f->literals, part.at[0], count);
    *literals = (bytes){f->literals, f->literals + count};
    return true;
  }
  const int bits = format < 2 ? 10 : format == 2 ? 14 : 18;
  if (!take_integer(from, (size_t)(4 + 2 * bits + 7) / 8, &head)) return false;
  const size_t count = (size_t)(head >> 4) & (((size_t)1 << bits) - 1);
  const size_t size = (size_t)(head >> (4 + bits)) & (((size_t)1 << bits) - 1);
  if (count > MOST_BLOCK || !take(from, size, &part)) return false;
  if (type == 2 ? !read_codes(f, &part) : f->longest == 0) return false;
  *literals = (bytes){f->literals, f->literals + count};
  if (format == 0) return read_coded(f, part, f->literals, count);
  for (int i = 0; i < 3; i++) {
    if (!take_integer(&part, 2, &streams[i])) return false;
  }
  const size_t each = (count + 3) / 4;
  if (3 * each > count) return false;
  for (int i = 0; i < 3; i++) {
    bytes stream;
    if (!take(&part, (size_t)streams[i], &stream) ||
        !read_coded(f, stream, f->literals + (size_t)i * each, each)) {
      return false;
    }
  }
  return read_coded(f, part, f->literals + 3 * each, count - 3 * each);
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* The extra bits of lengths with a code; the numbers of all codes follow each other. */
static const uint8_t literal_bits[LITERAL_LENGTHS] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  1,  1,
    1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t match_bits[MATCH_LENGTHS] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0, 0,
    0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const int16_t literal_shares[LITERAL_LENGTHS] = {
    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
    2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
static const int16_t match_shares[MATCH_LENGTHS] = {
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
static const int16_t offset_shares[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1,  1,  1,  1, 1,
                                        1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

/* Reads how a table comes: the usual one, one symbol, its shares, or the last one again. */
static bool choose_table(frame *f, int which, int mode, bytes *from) {
  static const struct {
    const int16_t *shares;
    int count, log, symbols, most_log;
  } kinds[3] = {{literal_shares, LITERAL_LENGTHS, 6, LITERAL_LENGTHS, 9},
                {offset_shares, sizeof offset_shares / sizeof *offset_shares, 5, OFFSETS, 8},
                {match_shares, MATCH_LENGTHS, 6, MATCH_LENGTHS, 9}};
  state_table *table = which == 0 ? &f->lengths : which == 1 ? &f->offsets : &f->matches;
  uint64_t symbol;
  if (mode == 3) return f->has_table[which];
  f->has_table[which] = true;
  if (mode == 0) {
    return make_table(table, kinds[which].shares, kinds[which].count, kinds[which].log);
  }
  if (mode == 2) return read_table(from, table, kinds[which].most_log, kinds[which].symbols);
  if (!take_integer(from, 1, &symbol) || (int)symbol >= kinds[which].symbols) return false;
  table->log = 0;
  table->of[0] = (state_entry){0, (uint8_t)symbol, 0};
  return true;
}

/* The distance for the value of an offset: one of the recent distances, or a new one. */
static uint32_t distance_of(uint32_t *recent, uint32_t value, bool no_literals) {
  uint32_t distance = value - 3;
  int which = 3;
  if (value <= 3) {
    which = (int)value - 1 + no_literals;
    distance = which < 3 ? recent[which] : recent[0] - 1;
    if (which == 0) return distance;
  }
  if (which > 1) recent[2] = recent[1];
  recent[1] = recent[0];
  return recent[0] = distance;
}

/* Copies what is already written; the parts may overlap. */
static void copy_match(uint8_t *to, size_t distance, size_t count) {
  const uint8_t *from = to - distance;
  if (distance >= count) memcpy(to, from, count);
  else for (size_t i = 0; i < count; i++) to[i] = from[i];
}

typedef struct {
  uint8_t *begin, *at, *end;
} output;

static bool write_bytes(output *to, const uint8_t *from, size_t count) {
  if ((size_t)(to->end - to->at) < count) return false;
  memcpy(to->at, from, count);
  to->at += count;
  return true;
}

static bool run_sequences(frame *f, bytes from, uint32_t count, bytes *literals, output *to) {
  uint32_t literal_base[LITERAL_LENGTHS], match_base[MATCH_LENGTHS];
  uint32_t base = 0;
  for (int i = 0; i < LITERAL_LENGTHS; base += 1u << literal_bits[i++]) literal_base[i] = base;
  base = 3;
  for (int i = 0; i < MATCH_LENGTHS; base += 1u << match_bits[i++]) match_base[i] = base;
  back_bits b;
  if (!begin_back(&b, from)) return false;
  uint32_t length = first_state(&f->lengths, &b), offset = first_state(&f->offsets, &b);
  uint32_t match = first_state(&f->matches, &b);
  for (uint32_t i = 0; i < count; i++) {
    const int offset_bits = f->offsets.of[offset].symbol;
    const int l = f->lengths.of[length].symbol, m = f->matches.of[match].symbol;
    const uint32_t value = (1u << offset_bits) + (uint32_t)read_back(&b, offset_bits);
    const size_t matched = match_base[m] + read_back(&b, match_bits[m]);
    const size_t copied = literal_base[l] + read_back(&b, literal_bits[l]);
    if (i + 1 < count) {
      length = next_state(&f->lengths, length, &b);
      match = next_state(&f->matches, match, &b);
      offset = next_state(&f->offsets, offset, &b);
    }
    bytes part;
    if (b.left < 0 || !take(literals, copied, &part) || !write_bytes(to, part.at, copied)) return false;
    const size_t distance = distance_of(f->recent, value, copied == 0);
    if (distance == 0 || distance > (size_t)(to->at - to->begin) ||
        matched > (size_t)(to->end - to->at)) {
      return false;
    }
    copy_match(to->at, distance, matched);
    to->at += matched;
  }
  return b.left == 0;
}

static bool run_block(frame *f, bytes from, output *to) {
  bytes literals;
  uint64_t count, more = 0, modes;
  if (!read_literals(f, &from, &literals) || !take_integer(&from, 1, &count)) return false;
  if (count == 255) {
    if (!take_integer(&from, 2, &more)) return false;
    count = more + 0x7f00;
  } else if (count >= 128) {
    if (!take_integer(&from, 1, &more)) return false;
    count = ((count - 128) << 8) + more;
  }
  if (count > 0) {
    if (!take_integer(&from, 1, &modes) || (modes & 3) != 0) return false;
    for (int which = 0; which < 3; which++) {
      if (!choose_table(f, which, (int)(modes >> (6 - 2 * which)) & 3, &from)) return false;
    }
    if (!run_sequences(f, from, (uint32_t)count, &literals, to)) return false;
  }
  return write_bytes(to, literals.at, left(&literals));
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool read_header(bytes *from) {
  uint64_t magic, flags, ignored;
  if (!take_integer(from, MAGIC_BYTES, &magic) || magic != 0xfd2fb528) return false;
  if (!take_integer(from, 1, &flags)) return false;
  const bool is_single = flags >> 5 & 1;
  const int size = (int)(flags >> 6);
  /* No dictionary, nothing reserved. */
  if ((flags & 11) != 0 || (!is_single && !take_integer(from, 1, &ignored))) return false;
  return take_integer(from, size > 0 ? (size_t)1 << size : is_single, &ignored);
}

bool rm_zstd_decompress(const void *compressed, size_t size, char *to, size_t length) {
  bytes from = {compressed, (const uint8_t *)compressed + size}, part;
  output out = {(uint8_t *)to, (uint8_t *)to, (uint8_t *)to + length};
  frame *f = malloc(sizeof *f);
  if (f == NULL) return false;
  f->longest = 0;
  memset(f->has_table, 0, sizeof f->has_table);
  memcpy(f->recent, (const uint32_t[]){1, 4, 8}, sizeof f->recent);
  bool good = read_header(&from), last = false;
  while (good && !last) {
    uint64_t head = 0;
    good = take_integer(&from, 3, &head);
    const int type = (int)(head >> 1) & 3;
    const size_t count = (size_t)(head >> 3);
    last = head & 1;
    good = good && type < 3 && count <= MOST_BLOCK && take(&from, type == 1 ? 1 : count, &part);
    if (!good) break;
    if (type == 2) good = run_block(f, part, &out);
    else if (type == 0) good = write_bytes(&out, part.at, count);
    else if ((good = count <= (size_t)(out.end - out.at))) {
      memset(out.at, part.at[0], count);
      out.at += count;
    }
  }
  free(f);
  return good && out.at == out.end;
}
#endif
