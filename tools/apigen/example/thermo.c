/* The library that does the work: on the host. Its thermometers are made up. */
#include "thermo.h"

#include <stdlib.h>
#include <string.h>

#define SENSORS 4
#define VALUES 24
#define NAME_BYTES 64

struct thermo_sensor {
	uint32_t index;
	uint32_t reads;
	size_t length;
	char name[NAME_BYTES];
};

static double value(uint32_t index, uint32_t n)
{
	return 20.0 + index + (double)(n * 7 % 10) / 4;
}

int thermo_version(uint32_t *version)
{
	if (!version)
		return THERMO_ERR_ARGUMENT;
	*version = 0x00010002;
	return THERMO_OK;
}

int thermo_open(uint32_t index, thermo_sensor **sensor)
{
	if (!sensor || index >= SENSORS)
		return THERMO_ERR_ARGUMENT;
	thermo_sensor *opened = calloc(1, sizeof *opened);
	if (!opened)
		return THERMO_ERR_LIMIT;
	opened->index = index;
	*sensor = opened;
	return THERMO_OK;
}

int thermo_read(thermo_sensor *sensor, double *celsius)
{
	if (!sensor || !celsius)
		return THERMO_ERR_ARGUMENT;
	*celsius = value(sensor->index, sensor->reads++);
	return THERMO_OK;
}

int thermo_read_many(thermo_sensor *sensor, double *values, size_t *count)
{
	if (!sensor || !count)
		return THERMO_ERR_ARGUMENT;
	size_t room = *count;
	*count = VALUES;
	if (!values)
		return THERMO_OK;
	if (room < VALUES)
		return THERMO_ERR_ROOM;
	for (uint32_t n = 0; n < VALUES; n++)
		values[n] = value(sensor->index, n);
	return THERMO_OK;
}

int thermo_set_name(thermo_sensor *sensor, const char *name, size_t length)
{
	if (!sensor || (!name && length))
		return THERMO_ERR_ARGUMENT;
	if (length > NAME_BYTES)
		return THERMO_ERR_LIMIT;
	if (length)
		memcpy(sensor->name, name, length);
	sensor->length = length;
	return THERMO_OK;
}

int thermo_get_name(thermo_sensor *sensor, char *name, size_t *length)
{
	if (!sensor || !length)
		return THERMO_ERR_ARGUMENT;
	size_t room = *length;
	*length = sensor->length;
	if (!name)
		return THERMO_OK;
	if (room < sensor->length)
		return THERMO_ERR_ROOM;
	memcpy(name, sensor->name, sensor->length);
	return THERMO_OK;
}

int thermo_close(thermo_sensor *sensor)
{
	if (!sensor)
		return THERMO_ERR_ARGUMENT;
	free(sensor);
	return THERMO_OK;
}
