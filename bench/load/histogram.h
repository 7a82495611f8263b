/* Latencies in nanoseconds, kept as counts in log-linear buckets.
 *
 * 64 buckets per power of two: a percentile is at most 1.6 % above the true value,
 * and the memory does not grow with the number of samples.
 */
#ifndef TWINBUS_BENCH_HISTOGRAM_H
#define TWINBUS_BENCH_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

enum { SUB_BITS = 6, SUB_COUNT = 1 << SUB_BITS, BUCKET_COUNT = (65 - SUB_BITS) * SUB_COUNT };

struct histogram { uint64_t counts[BUCKET_COUNT], total, max; };

static int bucket_of(uint64_t ns)
{
    if (ns < SUB_COUNT)
        return (int)ns;
    int shift = 63 - __builtin_clzll(ns) - SUB_BITS;
    return (shift + 1) * SUB_COUNT + (int)((ns >> shift) - SUB_COUNT);
}

static uint64_t upper_bound(int bucket)
{
    if (bucket < SUB_COUNT)
        return (uint64_t)bucket;
    int shift = bucket / SUB_COUNT - 1;
    return ((uint64_t)(bucket % SUB_COUNT + SUB_COUNT + 1) << shift) - 1;
}

static void record(struct histogram *histogram, uint64_t ns)
{
    histogram->counts[bucket_of(ns)]++;
    histogram->total++;
    if (ns > histogram->max)
        histogram->max = ns;
}

static double percentile_us(const struct histogram *histogram, double percent)
{
    uint64_t seen = 0;
    double wanted = (double)histogram->total * percent / 100.0;
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++) {
        seen += histogram->counts[bucket];
        if (seen && (double)seen >= wanted) {
            uint64_t bound = upper_bound(bucket);
            return (double)(bound < histogram->max ? bound : histogram->max) / 1e3;
        }
    }
    return 0.0;
}

static void print_latency(const char *name, const struct histogram *histogram)
{
    printf(", \"%s\": {\"samples\": %llu, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, "
           "\"p99.9\": %.1f, \"max\": %.1f}",
           name, (unsigned long long)histogram->total, percentile_us(histogram, 50),
           percentile_us(histogram, 90), percentile_us(histogram, 99),
           percentile_us(histogram, 99.9), (double)histogram->max / 1e3);
}

#endif
