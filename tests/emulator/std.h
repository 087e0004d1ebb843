/*
 * In place of math.h, stdint.h and string.h, which kernels may include where RM_EMULATED is
 * defined: what NVRTC has no names for. The types are those of a device; functions are in device.h.
 */
#ifndef ROWMAJOR_EMULATOR_STD_H
#define ROWMAJOR_EMULATOR_STD_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MAX 0x7fffffffffffffffll
#define INT64_MIN (-INT64_MAX - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xffffffffffffffffull
#define INT64_C(n) n##ll
#define UINT64_C(n) n##ull
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

#endif
