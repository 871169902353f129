/* SPDX-License-Identifier: GPL-2.0 */
/* The form in which libbpf reads the description of a map from BTF. */
#ifndef SIDESTEP_MAPS_FORM_H
#define SIDESTEP_MAPS_FORM_H

#define SEC(name) __attribute__((section(name), used))

#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name

#define ARRAY_MAP(name, entries, type_of_value) \
	struct { \
		MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); \
		MAP_NUMBER(max_entries, entries); \
		MAP_TYPE(key, __u32); \
		MAP_TYPE(value, type_of_value); \
	} name SEC(".maps")

#endif
