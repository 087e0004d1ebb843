/*
 * Constants that vector code reads from memory.
 *
 * The compiler does not see their values where they are used, so that it loads them. As literals they
 * are vectors in the code of loops, which V8 makes of two integers each time.
 */
extern const double rm_exp_constants[13];

/* See rm_exp_series_f64: the polynomial, 1 / log(2), and -log(2) in two parts. */
const double rm_exp_constants[13] = {
    0.5000000000000011,
    0.16666666666666405,
    0.04166666666652701,
    0.008333333333498163,
    0.0013888888944577113,
    0.0001984126950082645,
    2.4801492012725377e-05,
    2.7557589415177705e-06,
    2.7630668507379177e-07,
    2.499977484493492e-08,
    0x1.71547652b82fep+0,
    -0x1.62e42fee00000p-1,
    -0x1.a39ef35793c76p-33,
};
