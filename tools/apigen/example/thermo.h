/*
 * thermo: reads thermometers. An example of an API, small enough to add to
 * VirtFun in an hour: docs/remoting.md shows how.
 */
#ifndef THERMO_H
#define THERMO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. */
#define THERMO_OK 0
/* A null pointer, or no such sensor. */
#define THERMO_ERR_ARGUMENT (-1)
/* The place is too small; the length that is needed is said. */
#define THERMO_ERR_ROOM (-2)
/* Too long, or too many. */
#define THERMO_ERR_LIMIT (-3)
/* The device is gone. */
#define THERMO_ERR_LOST (-4)
/* This library does not have it. */
#define THERMO_ERR_UNSUPPORTED (-5)

typedef struct thermo_sensor thermo_sensor;

/* The library's version: 0x00010002 is 1.2. */
int thermo_version(uint32_t *version);

/* Opens the sensor with this index, 0 to 3. */
int thermo_open(uint32_t index, thermo_sensor **sensor);

/* The temperature now, in degrees Celsius. */
int thermo_read(thermo_sensor *sensor, double *celsius);

/*
 * The last temperatures. `*count` says how many there is room for, and then how
 * many there are. If `values` is NULL, the count alone is said.
 */
int thermo_read_many(thermo_sensor *sensor, double *values, size_t *count);

/* Gives a sensor a name of up to 64 bytes. */
int thermo_set_name(thermo_sensor *sensor, const char *name, size_t length);

/*
 * The name, without a zero byte. `*length` says how much room there is, and then
 * how long the name is. If `name` is NULL, the length alone is said.
 */
int thermo_get_name(thermo_sensor *sensor, char *name, size_t *length);

int thermo_close(thermo_sensor *sensor);

#ifdef __cplusplus
}
#endif

#endif
