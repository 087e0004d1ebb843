/*
 * Convolutions of one type: T, with LANES numbers in a vector. Included once per type.
 */
typedef T NAME(loose) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));

/* Sums of products for some vectors of results: to[k] is the sum of v[j] * from[k - j]. */
static RM_ALWAYS_INLINE void NAME(sums)(const int vectors, const T *from, const T *v, ptrdiff_t m,
                                        T *to) {
  NAME(loose) sum[4];
  FFT_UNROLL for (int i = 0; i < vectors; i++) sum[i] = (NAME(loose)){0};
  FFT_ROLLED for (ptrdiff_t j = 0; j < m; j++) {
    FFT_UNROLL for (int i = 0; i < vectors; i++) {
      sum[i] += *(const NAME(loose) *)(from + i * LANES - j) * v[j];
    }
  }
  FFT_UNROLL for (int i = 0; i < vectors; i++) *(NAME(loose) *)(to + i * LANES) = sum[i];
}

static void NAME(line)(const T *from, const T *v, ptrdiff_t m, T *to, ptrdiff_t count) {
  ptrdiff_t k = 0;
  for (; k + 4 * LANES <= count; k += 4 * LANES) NAME(sums)(4, from + k, v, m, to + k);
  for (; k + LANES <= count; k += LANES) NAME(sums)(1, from + k, v, m, to + k);
  if (k < count && count >= LANES) {
    k = count - LANES;
    NAME(sums)(1, from + k, v, m, to + k);
    return;
  }
  for (; k < count; k++) {
    T sum = 0;
    RM_SCALAR for (ptrdiff_t j = 0; j < m; j++) sum += from[k - j] * v[j];
    to[k] = sum;
  }
}

/* Some results of a row. */
static void NAME(convolve)(void *context, ptrdiff_t index) {
  convolve_call *ctx = context;
  const ptrdiff_t blocks = rm_ceil_div(ctx->length, CONVOLVE_BLOCK), m = ctx->m;
  const ptrdiff_t row = index / blocks, first = index % blocks * CONVOLVE_BLOCK;
  const ptrdiff_t count = rm_min(CONVOLVE_BLOCK, ctx->length - first);
  const T *a = (const T *)ctx->a + row * ctx->n;
  T *to = (T *)ctx->out + row * ctx->length + first;
  /* The elements of a that are read; those outside of it are 0. */
  const ptrdiff_t low = first + ctx->start - m + 1, high = first + ctx->start + count;
  if (low >= 0 && high <= ctx->n) {
    NAME(line)(a + low + m - 1, ctx->v, m, to, count);
    return;
  }
  T *padded = rm_fft_workspace((size_t)(high - low) * sizeof(T));
  if (padded == NULL) {
    ctx->failed = true;
    return;
  }
  const ptrdiff_t begin = low < 0 ? -low : 0, end = rm_min(high, ctx->n) - low;
  memset(padded, 0, (size_t)(high - low) * sizeof(T));
  if (end > begin) memcpy(padded + begin, a + low + begin, (size_t)(end - begin) * sizeof(T));
  NAME(line)(padded + m - 1, ctx->v, m, to, count);
  rm_fft_give_workspace(padded);
}
