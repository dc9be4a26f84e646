/* An API that gives out a table. */
typedef unsigned long t_result;
typedef t_result (*t_open_call)(int flags, void *user);
typedef struct _t_table t_table;

t_result t_open(int flags, void *user);

struct _t_table {
    int version;
    t_open_call t_open;
    t_result (*t_close)(t_table *, int);
    int *numbers;
};
