unsigned long long HAP_perf_get_time_us(void);
