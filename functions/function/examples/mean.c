/* The same with an array of any length as its last argument. */
#include "vfun_function.h"

VFUN_FUNCTION_ARRAY(f64, mean, 1, 0, "arithmetic mean, or what to say of none", (f64, data), (f64, of_none))
{
	double sum = 0;
	for (size_t i = 0; i < data_count; i++)
		sum += data[i];
	return data_count ? sum / (double)data_count : of_none;
}
