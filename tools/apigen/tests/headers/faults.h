/* What cannot be described. */
#include <stdarg.h>

struct f_bits {
    int whole;
    unsigned part : 3;
};
union f_union {
    int number;
    float fraction;
};
struct f_packed {
    char a;
    int b;
} __attribute__((packed));
#pragma pack(push, 1)
struct f_pragma {
    char a;
    int b;
};
#pragma pack(pop)
struct f_aligned {
    int a __attribute__((aligned(64)));
};
struct f_flexible {
    int count;
    int values[];
};
struct f_unnamed {
    struct {
        int a;
    } inner;
};
struct f_outer {
    struct f_bits *bits;
};

int f_good(int);
int f_bits_call(const struct f_bits *bits);
int f_outer_call(struct f_outer outer);
int f_union_call(union f_union value);
int f_packed_call(struct f_packed *);
int f_pragma_call(struct f_pragma *);
int f_aligned_call(struct f_aligned *);
int f_flexible_call(struct f_flexible *);
int f_unnamed_call(struct f_unnamed *);
int f_variadic(const char *format, ...);
int f_variadic_callback(int (*say)(const char *, ...));
int f_list(va_list list);
long double f_long(void);
