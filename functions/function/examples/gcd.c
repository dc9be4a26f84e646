/* An ordinary function that is a vFunction as well, to start from.
 *
 *     cc -O2 -shared -fPIC -fvisibility=hidden -DVFUN_DRIVER $(pkg-config --cflags vfun) -o libgcd.so gcd.c
 *     vfun function add libgcd.so
 *     cc -O2 -DVFUN_APP -o program program.c $(pkg-config --cflags --libs vfun)    # program.c includes this file
 */
#include "vfun_function.h"

VFUN_FUNCTION(u64, gcd, 1, 0, "greatest common divisor", (u64, a), (u64, b))
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}
