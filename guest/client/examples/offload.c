/* Four jobs that are worth a trip to the host.
 *
 *     vfun bindgen zstd sha256 resize matmul_f32 --lang c -o functions.h
 *     cc offload.c $(pkg-config --cflags --libs vfun) -o offload && ./offload
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"

static void check(enum vfun_status status, const char *what)
{
	if (status != VFUN_STATUS_OK) {
		fprintf(stderr, "%s: %s\n", what, vfun_last_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static unsigned char text[220000], packed[1 << 20], blue[64 * 48 * 4], small[32 * 24 * 4];
	const float both[] = {1, 2, 3, 4};
	unsigned char digest[32];
	float product[4];
	size_t len;
	struct vfun_session *session;
	struct vfun_function *f;
	struct vfun_connect_options who = {.size = sizeof who, .app = "offload", .endpoint = argc > 1 ? argv[1] : NULL};
	struct vfun_function_options large = {.size = sizeof large, .cell_bytes = 1 << 20, .depth = 1};

	check(vfun_connect(&who, &session), "connect");

	for (size_t i = 0; i < sizeof text; i++)
		text[i] = "windows and functions "[i % 22];
	check(zstd_open(session, &large, &f), "zstd");
	check(zstd_call(f, 3, text, sizeof text, packed, sizeof packed, &len), "zstd");
	printf("zstd %s of %zu\n", len < 1000 ? "true" : "false", sizeof text);
	check(vfun_release(f, NULL), "release");

	check(sha256_open(session, NULL, &f), "sha256");
	check(sha256_call(f, (const uint8_t *)"abc", 3, digest), "sha256");
	printf("sha256 ");
	for (int i = 0; i < 32; i++)
		printf("%02x", digest[i]);
	printf("\n");
	check(vfun_release(f, NULL), "release");

	for (size_t i = 0; i < sizeof blue; i++)
		blue[i] = i % 4 < 2 ? 0 : 255;
	check(resize_open(session, &large, &f), "resize");
	check(resize_call(f, 64, 48, 32, 24, blue, sizeof blue, small, sizeof small, &len), "resize");
	printf("resize %zu [%d, %d, %d, %d]\n", len, small[0], small[1], small[2], small[3]);
	check(vfun_release(f, NULL), "release");

	check(matmul_f32_open(session, &large, &f), "matmul_f32");
	check(matmul_f32_call(f, 2, 2, 1, both, 4, product, 4, &len), "matmul_f32");
	printf("matmul [%.1f, %.1f, %.1f, %.1f]\n", product[0], product[1], product[2], product[3]);
	check(vfun_release(f, NULL), "release");
	check(vfun_close(session), "close");
	return 0;
}
