set -e
cat > program.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <math.h>
static void *work(void *result) { *(double *)result = sqrt(16); return 0; }
int main(int count, char **words) {
    pthread_t thread;
    double result;
    pthread_create(&thread, 0, work, &result);
    pthread_join(thread, 0);
    return result == 4 && puts("compiled") < 0;
}
END
gcc -O2 -Wall -flto program.c -lm -pthread -o program
test "$(./program)" = compiled
echo works
