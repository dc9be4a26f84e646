/* Calls both functions where it finds them, and says where that was. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gcd.c"
#include "mean.c"

static void check(enum vfun_status status, const char *what)
{
	if (status != VFUN_STATUS_OK) {
		fprintf(stderr, "%s: %s\n", what, vfun_last_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct vfun_session *session = NULL;
	struct vfun_function_options large = {.size = sizeof large, .cell_bytes = 64 << 10};
	struct gcd_function g;
	struct mean_function m;
	uint64_t n;
	double x, many[1000];

	if (argc > 1) {
		struct vfun_connect_options o = {.size = sizeof o, .app = "one-source", .endpoint = argv[1]};
		check(vfun_connect(&o, &session), "connect");
	}
	check(gcd_open(session, NULL, &g), "gcd_open");
	check(mean_open(session, &large, &m), "mean_open");
	check(gcd_call(&g, 1071, 462, &n), "gcd_call");
	printf("gcd %s %" PRIu64 "\n", g.host ? "host" : "here", n);
	for (int i = 0; i < 1000; i++)
		many[i] = i;
	check(mean_call(&m, -1, many, 1000, &x), "mean_call");
	printf("mean %s %g\n", m.host ? "host" : "here", x);
	check(mean_call(&m, -1, many, 3, &x), "mean_call");
	printf("mean of three %g\n", x);
	check(mean_call(&m, -1, NULL, 0, &x), "mean_call");
	printf("mean of none %g\n", x);
	check(gcd_close(&g), "gcd_close");
	check(mean_close(&m), "mean_close");
	if (session)
		check(vfun_close(session), "close");
	return 0;
}
