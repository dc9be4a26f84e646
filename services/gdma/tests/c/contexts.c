/* Many contexts at once: each has one thread, however many processors there are. */
#include "check.h"

#include <dirent.h>

#define CONTEXTS 16

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    TRUE(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int main(void) {
    gdma_context *contexts[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++) {
        OK(gdma_init(GDMA_VERSION, &contexts[i]));
        IS(i + 2, threads());
    }
    for (int i = 0; i < CONTEXTS; i++) OK(gdma_exit(contexts[i]));
    return 0;
}
