/* One source for a vFunction, in C (11 or later; GCC 8, clang 12 or later).
 *
 * An ordinary function, and one line before it:
 *
 *     #include "vfun_function.h"
 *
 *     VFUN_FUNCTION(u64, gcd, 1, 0, "greatest common divisor", (u64, a), (u64, b))
 *     {
 *         while (b) {
 *             uint64_t rest = a % b;
 *             a = b;
 *             b = rest;
 *         }
 *         return a;
 *     }
 *
 * makes `uint64_t gcd(uint64_t a, uint64_t b)` and, besides:
 *
 * | compiled with        | what there is besides                                 |
 * |----------------------|-------------------------------------------------------|
 * | -DVFUN_DRIVER        | the symbols of a driver, with its manifest in them:   |
 * |                      | `cc -O2 -shared -fPIC -DVFUN_DRIVER`, `vfun function  |
 * |                      | add`; or clang --target=wasm32, `vfun submit`         |
 * | -DVFUN_APP, libvfun  | gcd_open, gcd_call, gcd_close: on the host, or in     |
 * |                      | this process where no host offers it                  |
 * | neither              | nothing                                               |
 *
 * Types are u8 u16 u32 u64, i8 i16 i32 i64, f32, f64: what a signature calls
 * them (docs/signatures.md; its bool is a macro here: say u8). VFUN_FUNCTION_ARRAY is for a function with
 * an array of any length as its last argument:
 *
 *     VFUN_FUNCTION_ARRAY(f64, mean, 1, 0, "arithmetic mean", (f64, data), (f64, otherwise))
 *     { ... }   is   double mean(double otherwise, const double *data, size_t data_count)
 *
 * In a driver the array is a private copy that no caller can change. A
 * function with its own errors, structs, or results of any length is a driver
 * with vfun_driver.h, or one in Rust with #[vfunction].
 *
 * One to eight arguments, and none to eight before an array. One function a file.
 */
#ifndef VFUN_FUNCTION_H
#define VFUN_FUNCTION_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vfun_function.h is for little-endian machines"
#endif
#if defined(VFUN_DRIVER) && defined(VFUN_APP)
#error "define VFUN_DRIVER for what a host loads or VFUN_APP for what calls it, not both"
#endif

typedef uint8_t vfun_t_u8;
typedef uint16_t vfun_t_u16;
typedef uint32_t vfun_t_u32;
typedef uint64_t vfun_t_u64;
typedef int8_t vfun_t_i8;
typedef int16_t vfun_t_i16;
typedef int32_t vfun_t_i32;
typedef int64_t vfun_t_i64;
typedef float vfun_t_f32;
typedef double vfun_t_f64;

/* M of each argument, with a comma, nothing or a text's comma between them. */
#define VFUN_1(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_2(M, c, __VA_ARGS__))
#define VFUN_2(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_3(M, c, __VA_ARGS__))
#define VFUN_3(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_4(M, c, __VA_ARGS__))
#define VFUN_4(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_5(M, c, __VA_ARGS__))
#define VFUN_5(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_6(M, c, __VA_ARGS__))
#define VFUN_6(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_7(M, c, __VA_ARGS__))
#define VFUN_7(M, c, a, ...) M(a) __VA_OPT__(VFUN_SEP_##c() VFUN_8(M, c, __VA_ARGS__))
#define VFUN_8(M, c, a) M(a)
#define VFUN_EACH(M, c, ...) __VA_OPT__(VFUN_1(M, c, __VA_ARGS__))
#define VFUN_SEP_comma() ,
#define VFUN_SEP_none()
#define VFUN_SEP_text() ", "

#define VFUN_PARAM_(type, name) vfun_t_##type name
#define VFUN_PARAM(a) VFUN_PARAM_ a
#define VFUN_MEMBER_(type, name) vfun_t_##type name;
#define VFUN_MEMBER(a) VFUN_MEMBER_ a
#define VFUN_TEXT_(type, name) #name ": " #type
#define VFUN_TEXT(a) VFUN_TEXT_ a
#define VFUN_PASS_(type, name) args.name
#define VFUN_PASS(a) VFUN_PASS_ a
#define VFUN_NAME_(type, name) name
#define VFUN_NAME(a) VFUN_NAME_ a
#define VFUN_FILL_(type, name) args.name = name;
#define VFUN_FILL(a) VFUN_FILL_ a
#define VFUN_SIGNATURE(result, ...) "(" VFUN_EACH(VFUN_TEXT, text, __VA_ARGS__) ") -> " #result

/* The array at the end: its element's type, its name, and the arguments before it. */
#define VFUN_FUNCTION_ARRAY(result, name, major, minor, summary, ...) \
	VFUN_EXPAND(VFUN_FUNCTION_ARRAY_, (result, name, major, minor, summary, VFUN_FIRST_OPEN(__VA_ARGS__)))
#define VFUN_EXPAND(M, args) M args
#define VFUN_FIRST_OPEN(tail, ...) VFUN_UNPACK tail __VA_OPT__(, ) __VA_ARGS__
#define VFUN_UNPACK(element, name) element, name
#define VFUN_SIGNATURE_ARRAY(result, element, array, ...) \
	"(" VFUN_EACH(VFUN_TEXT, text, __VA_ARGS__) __VA_OPT__(", ") #array ": [" #element "]) -> " #result
#define VFUN_ARRAY_PARAMS(element, array, ...) \
	VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__) __VA_OPT__(, ) const vfun_t_##element *array, size_t array##_count
#define VFUN_ARRAY_ARGS(element, array, ...) \
	struct vfun_args { \
		VFUN_EACH(VFUN_MEMBER, none, __VA_ARGS__) \
		vfun_t_##element vfun_array[1]; \
	};
#define VFUN_ARRAY_AT offsetof(struct vfun_args, vfun_array)

#define VFUN_MANIFEST(name, major, minor, summary, signature) \
	"name = \"" #name "\"\nversion = \"" #major "." #minor "\"\nsummary = '" summary \
	"'\nsignature = \"" signature "\"\n"

/* ------------------------------------------------------------- the driver */
#ifdef VFUN_DRIVER
#include "vfun_driver.h"

#if __STDC_HOSTED__ && !defined(__wasm__)
#include <stdlib.h>
#include <stdio.h>
#endif

#ifdef __wasm__
/* A section of its own in the module, which nothing in it refers to. */
#define VFUN_KEEP_MANIFEST(text) \
	__asm__(".section .custom_section..vfun.manifest,\"\",@\n.ascii " VFUN_QUOTE(text) "\n.text\n");
#define VFUN_QUOTE(text) VFUN_QUOTE_(text)
#define VFUN_QUOTE_(text) #text
#else
#define VFUN_KEEP_MANIFEST(text) \
	__attribute__((used, section(".vfun.manifest"))) static const char vfun_manifest[sizeof(text) - 1] = text;
#endif

#define VFUN_EXPORT __attribute__((visibility("default")))

#define VFUN_INFO(name_, major, minor, most) \
	VFUN_EXPORT const struct vfun_driver_info vfun_driver_info = { \
		.abi = VFUN_DRIVER_ABI, \
		.name = #name_, \
		.version_major = (major), \
		.version_minor = (minor), \
		.max_args = (most), \
		.max_result = 8, \
	};

#define VFUN_STATELESS \
	VFUN_EXPORT int vfun_driver_init(const struct vfun_driver_config *config, void **state) \
	{ \
		(void)config; \
		*state = NULL; \
		return VFUN_DRIVER_OK; \
	} \
	VFUN_EXPORT void vfun_driver_exit(void *state) \
	{ \
		(void)state; \
	}

#define VFUN_COMMAND(call) \
	if ((call)->command == VFUN_COMMAND_RST) \
		return VFUN_DRIVER_OK; \
	if ((call)->command != VFUN_COMMAND_SET) \
		return VFUN_DRIVER_BAD_ARGS;

#define VFUN_RESULT(call, value) \
	__builtin_memcpy((call)->out, &(value), sizeof(value)); \
	(call)->out_len = sizeof(value); \
	return VFUN_DRIVER_OK;

#define VFUN_FUNCTION(result, name, major, minor, summary, ...) \
	static vfun_t_##result name(VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__)); \
	VFUN_KEEP_MANIFEST(VFUN_MANIFEST(name, major, minor, summary, VFUN_SIGNATURE(result, __VA_ARGS__))) \
	struct vfun_args { \
		VFUN_EACH(VFUN_MEMBER, none, __VA_ARGS__) \
	}; \
	VFUN_INFO(name, major, minor, sizeof(struct vfun_args)) \
	VFUN_STATELESS \
	VFUN_EXPORT int vfun_driver_function(void *state, struct vfun_call *call) \
	{ \
		struct vfun_args args; \
		vfun_t_##result value; \
		(void)state; \
		VFUN_COMMAND(call) \
		if (call->args_len != sizeof(args)) \
			return VFUN_DRIVER_BAD_ARGS; \
		__builtin_memcpy(&args, call->args, sizeof(args)); \
		value = name(VFUN_EACH(VFUN_PASS, comma, __VA_ARGS__)); \
		VFUN_RESULT(call, value) \
	} \
	static vfun_t_##result name(VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__))

/* A private copy of what a caller can change; freed by VFUN_DONE. */
#if __STDC_HOSTED__ && !defined(__wasm__)
#define VFUN_PRIVATE(call, from, bytes) \
	if ((call)->flags & VFUN_CALL_SHARED_ARGS) { \
		mine = malloc((bytes) ? (bytes) : 1); \
		if (!mine) { \
			snprintf((call)->sentence, (call)->sentence_capacity, "no memory for %zu bytes of arguments", \
			         (size_t)(bytes)); \
			return 2; \
		} \
		__builtin_memcpy(mine, from, bytes); \
		from = mine; \
	}
#define VFUN_DONE(mine) free(mine);
#else
/* A module's arguments are its own already. */
#define VFUN_PRIVATE(call, from, bytes) \
	if ((call)->flags & VFUN_CALL_SHARED_ARGS) \
		return VFUN_DRIVER_BAD_ARGS;
#define VFUN_DONE(mine) (void)(mine);
#endif

#define VFUN_FUNCTION_ARRAY_(result, name, major, minor, summary, element, array, ...) \
	static vfun_t_##result name(VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__)); \
	VFUN_KEEP_MANIFEST(VFUN_MANIFEST(name, major, minor, summary, \
	                                 VFUN_SIGNATURE_ARRAY(result, element, array __VA_OPT__(, ) __VA_ARGS__))) \
	VFUN_ARRAY_ARGS(element, array __VA_OPT__(, ) __VA_ARGS__) \
	VFUN_INFO(name, major, minor, 1u << 30) \
	VFUN_STATELESS \
	VFUN_EXPORT int vfun_driver_function(void *state, struct vfun_call *call) \
	{ \
		struct vfun_args args; \
		void *mine = NULL; \
		const void *from = (const char *)call->args + VFUN_ARRAY_AT; \
		size_t bytes; \
		vfun_t_##result value; \
		(void)state; \
		VFUN_COMMAND(call) \
		if (__builtin_sub_overflow(call->args_len, VFUN_ARRAY_AT, &bytes) || bytes % sizeof(vfun_t_##element)) \
			return VFUN_DRIVER_BAD_ARGS; \
		__builtin_memcpy(&args, call->args, VFUN_ARRAY_AT); \
		VFUN_PRIVATE(call, from, bytes) \
		value = name(VFUN_EACH(VFUN_PASS, comma, __VA_ARGS__) __VA_OPT__(, ) from, \
		             bytes / sizeof(vfun_t_##element)); \
		VFUN_DONE(mine) \
		VFUN_RESULT(call, value) \
	} \
	static vfun_t_##result name(VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__))

/* ------------------------------------------------------------ the program */
#elif defined(VFUN_APP)
#include <string.h>
#include <vfun.h>

#define VFUN_OPENED(name, major, minor, signature) \
	/* Where it runs: host is null in this process. */ \
	struct name##_function { \
		struct vfun_function *host; \
	}; \
	/* On the session's host; in this process where that offers no such \
	 * function, or session is null. Another version or signature there, and \
	 * every other refusal, is an error. options may be null; its cell_bytes \
	 * bounds an array (4096 unless said). Ended by name_close. */ \
	static inline enum vfun_status name##_open(const struct vfun_session *session, \
	                                           const struct vfun_function_options *options, \
	                                           struct name##_function *function) \
	{ \
		function->host = NULL; \
		if (!session) \
			return VFUN_STATUS_OK; \
		return vfun_offered(session, #name, (uint32_t)(major) << 16 | (minor), signature, options, &function->host); \
	} \
	static inline enum vfun_status name##_close(struct name##_function *function) \
	{ \
		struct vfun_function *host = function->host; \
		function->host = NULL; \
		return host ? vfun_release(host, NULL) : VFUN_STATUS_OK; \
	}

#define VFUN_FUNCTION(result, name, major, minor, summary, ...) \
	vfun_t_##result name(VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__)); \
	VFUN_OPENED(name, major, minor, VFUN_SIGNATURE(result, __VA_ARGS__)) \
	struct name##_args { \
		VFUN_EACH(VFUN_MEMBER, none, __VA_ARGS__) \
	}; \
	static inline enum vfun_status name##_call(const struct name##_function *function, \
	                                           VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__), vfun_t_##result *to) \
	{ \
		struct name##_args args; \
		enum vfun_status status; \
		size_t len = 0; \
		if (!function->host) { \
			*to = name(VFUN_EACH(VFUN_NAME, comma, __VA_ARGS__)); \
			return VFUN_STATUS_OK; \
		} \
		/* Padding is sent too. */ \
		memset(&args, 0, sizeof(args)); \
		VFUN_EACH(VFUN_FILL, none, __VA_ARGS__) \
		status = vfun_call(function->host, &args, sizeof(args), to, sizeof(*to), &len); \
		return status == VFUN_STATUS_OK && len != sizeof(*to) ? VFUN_STATUS_HOST_NONSENSE : status; \
	} \
	vfun_t_##result name(VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__))

#define VFUN_FUNCTION_ARRAY_(result, name, major, minor, summary, element, array, ...) \
	vfun_t_##result name(VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__)); \
	VFUN_OPENED(name, major, minor, VFUN_SIGNATURE_ARRAY(result, element, array __VA_OPT__(, ) __VA_ARGS__)) \
	VFUN_ARRAY_ARGS(element, array __VA_OPT__(, ) __VA_ARGS__) \
	/* VFUN_STATUS_FULL if every cell is in use, VFUN_STATUS_ARGUMENTS_TOO_LONG \
	 * if the array does not fit one (see name_open). */ \
	static inline enum vfun_status name##_call(const struct name##_function *function, \
	                                           VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__), \
	                                           vfun_t_##result *to) \
	{ \
		struct vfun_args args; \
		struct vfun_slot *slot; \
		struct vfun_pending *pending; \
		void *cell; \
		size_t room, len = 0; \
		enum vfun_status status; \
		if (!function->host) { \
			*to = name(VFUN_EACH(VFUN_NAME, comma, __VA_ARGS__) __VA_OPT__(, ) array, array##_count); \
			return VFUN_STATUS_OK; \
		} \
		memset(&args, 0, sizeof(args)); \
		VFUN_EACH(VFUN_FILL, none, __VA_ARGS__) \
		status = vfun_borrow(function->host, &slot, &cell, &room); \
		if (status != VFUN_STATUS_OK) \
			return status; \
		if (__builtin_sub_overflow(room, VFUN_ARRAY_AT, &room) || array##_count > room / sizeof(*array)) { \
			vfun_give_back(slot); \
			return VFUN_STATUS_ARGUMENTS_TOO_LONG; \
		} \
		/* Straight to where the service reads them. */ \
		memcpy(cell, &args, VFUN_ARRAY_AT); \
		if (array##_count) \
			memcpy((char *)cell + VFUN_ARRAY_AT, array, array##_count * sizeof(*array)); \
		status = vfun_submit_borrowed(slot, VFUN_ARRAY_AT + array##_count * sizeof(*array), &pending); \
		if (status != VFUN_STATUS_OK) \
			return status; \
		status = vfun_wait(pending, to, sizeof(*to), &len); \
		return status == VFUN_STATUS_OK && len != sizeof(*to) ? VFUN_STATUS_HOST_NONSENSE : status; \
	} \
	vfun_t_##result name(VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__))

/* ----------------------------------------------------------- the function */
#else
#define VFUN_FUNCTION(result, name, major, minor, summary, ...) \
	vfun_t_##result name(VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__)); \
	vfun_t_##result name(VFUN_EACH(VFUN_PARAM, comma, __VA_ARGS__))
#define VFUN_FUNCTION_ARRAY_(result, name, major, minor, summary, element, array, ...) \
	vfun_t_##result name(VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__)); \
	vfun_t_##result name(VFUN_ARRAY_PARAMS(element, array __VA_OPT__(, ) __VA_ARGS__))
#endif

#endif /* VFUN_FUNCTION_H */
