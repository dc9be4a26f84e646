/* A program that knows thermo.h and nothing of VirtFun. It calls every function, also wrongly. */
#include "thermo.h"

#include <stdio.h>

#define SAY(call) printf("%s = %d\n", #call, call)

int main(void)
{
	uint32_t version = 0;
	thermo_sensor *first = NULL, *last = NULL, *none = NULL;
	double now = 0, values[32];
	char name[64];
	size_t n;

	SAY(thermo_version(&version));
	printf("version %#x\n", version);
	SAY(thermo_open(0, &first));
	SAY(thermo_open(3, &last));
	SAY(thermo_open(4, &none));
	for (int times = 0; times < 3; times++) {
		SAY(thermo_read(first, &now));
		printf("%.2f\n", now);
	}
	SAY(thermo_read(last, &now));
	printf("%.2f\n", now);
	SAY(thermo_read(NULL, &now));
	SAY(thermo_read(last, NULL));

	SAY(thermo_read_many(last, NULL, &n));
	printf("%zu values\n", n);
	n = 2;
	SAY(thermo_read_many(last, values, &n));
	printf("%zu values\n", n);
	n = sizeof values / sizeof values[0];
	SAY(thermo_read_many(last, values, &n));
	for (size_t at = 0; at < n; at++)
		printf("%.2f ", values[at]);
	printf("\n");

	SAY(thermo_set_name(first, "kitchen", 7));
	SAY(thermo_set_name(first, (const char *)values, sizeof values));
	SAY(thermo_set_name(first, NULL, 5));
	SAY(thermo_get_name(first, NULL, &n));
	printf("%zu bytes\n", n);
	n = 3;
	SAY(thermo_get_name(first, name, &n));
	printf("%zu bytes\n", n);
	n = sizeof name;
	SAY(thermo_get_name(first, name, &n));
	printf("%.*s\n", (int)n, name);
	SAY(thermo_close(first));
	SAY(thermo_close(last));
	return 0;
}
