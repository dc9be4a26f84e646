/* Stubs made by `vfun bindgen --lang c`, used. argv[1]: the endpoint. */
#include "functions.h"
#include <stdio.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, vfun_last_error()); return 1; } } while (0)

int main(int argc, char **argv)
{
	struct vfun_connect_options c;
	struct vfun_session *s;
	struct vfun_function *f;
	uint64_t n = 0;
	double sum = 0, numbers[] = { 1.5, 2.0, -0.25 };
	uint8_t digest[32], bytes[8];
	size_t count = 0;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.endpoint = argv[argc - 1];
	CHECK(vfun_connect(&c, &s) == VFUN_STATUS_OK);

	CHECK(factorial_open(s, NULL, &f) == VFUN_STATUS_OK);
	CHECK(factorial_call(f, 20, 1, &n) == VFUN_STATUS_OK);
	CHECK(n == 2432902008176640000u);
	CHECK(vfun_release(f, NULL) == VFUN_STATUS_OK);

	CHECK(sum_f64_open(s, NULL, &f) == VFUN_STATUS_OK);
	CHECK(sum_f64_call(f, numbers, 3, &sum) == VFUN_STATUS_OK);
	CHECK(sum == 3.25);
	CHECK(vfun_release(f, NULL) == VFUN_STATUS_OK);

	CHECK(sha256_open(s, NULL, &f) == VFUN_STATUS_OK);
	CHECK(sha256_call(f, (const uint8_t *)"abc", 3, digest) == VFUN_STATUS_OK);
	CHECK(digest[0] == 0xba && digest[31] == 0xad);
	CHECK(vfun_release(f, NULL) == VFUN_STATUS_OK);

	CHECK(null_open(s, NULL, &f) == VFUN_STATUS_OK);
	CHECK(null_call(f, bytes, 0) == VFUN_STATUS_OK);
	CHECK(vfun_release(f, NULL) == VFUN_STATUS_OK);

	/* echo: structs, arrays, a name that C has, and a variable array. */
	{
		struct echo_pair p;
		int16_t three[3] = { 1, -2, 3 };
		uint32_t data[] = { 7, 8, 9 };
		union {
			struct echo_results head;
			char bytes[512];
		} out;
		size_t len = 0;

		memset(&p, 0, sizeof(p));
		p.first.x = 1.25;
		p.rest[1].class_ = 200;
		p.on = true;
		CHECK(echo_open(s, NULL, &f) == VFUN_STATUS_OK);
		CHECK(echo_call(f, p, true, three, -5, data, 3, &out, sizeof(out), &len) == VFUN_STATUS_OK);
		CHECK(out.head.p.first.x == 1.25 && out.head.p.rest[1].class_ == 200 && out.head.p.on);
		CHECK(out.head.flag && out.head.three[1] == -2 && out.head.to_ == -5);
		memcpy(data, out.bytes + len - 4, 4);
		CHECK(data[0] == 9);
		CHECK(vfun_release(f, NULL) == VFUN_STATUS_OK);
	}

	/* A caller that was made for another signature. */
	{
		struct vfun_function_options o;
		struct vfun_description d;
		char text[2049];

		memset(&o, 0, sizeof(o));
		o.size = sizeof(o);
		o.signature = FACTORIAL_SIGNATURE;
		CHECK(vfun_open(s, "sum_f64", &o, &f) == VFUN_STATUS_REFUSED);
		CHECK(vfun_last_code() == 18);
		CHECK(strstr(vfun_last_error(), "(data: [f64]) -> f64"));
		CHECK(vfun_describe_function(s, "factorial", &d, text, sizeof(text), &count) == VFUN_STATUS_OK);
		CHECK(d.signature == FACTORIAL_SIGNATURE && d.max_args == 16 && count == strlen(text));
		CHECK(strcmp(text, "(n: u64, repetitions: u64 = 1) -> u64") == 0);
	}
	CHECK(vfun_close(s) == VFUN_STATUS_OK);
	puts("done");
	return 0;
}
