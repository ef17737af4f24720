/*
 * Valgrind's client requests as PostgreSQL uses them, for gcc's address
 * sanitizer: a server built with -DUSE_VALGRIND and this file in the place of
 * <valgrind/memcheck.h> poisons the memory that palloc has not given out and
 * the buffers that nobody has pinned. Only an instrumented library loaded into
 * it looks; the server itself need not be instrumented, and runs without the
 * sanitizer's library as well.
 *
 * What is allocated but not written yet the sanitizer does not know.
 */
#ifndef ASAN_MEMCHECK_H
#define ASAN_MEMCHECK_H

#include <stddef.h>

extern void __asan_poison_memory_region(void const volatile *, size_t) __attribute__((weak));
extern void __asan_unpoison_memory_region(void const volatile *, size_t) __attribute__((weak));

#define ASAN_POISON(addr, size) \
	((void) (__asan_poison_memory_region ? __asan_poison_memory_region(addr, size) : (void) 0))
#define ASAN_UNPOISON(addr, size) \
	((void) (__asan_unpoison_memory_region ? __asan_unpoison_memory_region(addr, size) : (void) 0))

#define VALGRIND_MAKE_MEM_NOACCESS(addr, size) ASAN_POISON(addr, size)
#define VALGRIND_MAKE_MEM_UNDEFINED(addr, size) ASAN_UNPOISON(addr, size)
#define VALGRIND_MAKE_MEM_DEFINED(addr, size) ASAN_UNPOISON(addr, size)
#define VALGRIND_CHECK_MEM_IS_DEFINED(addr, size) ((void) 0)
#define VALGRIND_CHECK_MEM_IS_ADDRESSABLE(addr, size) ((void) 0)

#define VALGRIND_CREATE_MEMPOOL(pool, redzone, zeroed) ((void) 0)
#define VALGRIND_CREATE_MEMPOOL_EXT(pool, redzone, zeroed, flags) ((void) 0)
#define VALGRIND_DESTROY_MEMPOOL(pool) ((void) 0)
#define VALGRIND_MEMPOOL_TRIM(pool, addr, size) ((void) 0)
#define VALGRIND_MEMPOOL_ALLOC(pool, addr, size) ASAN_UNPOISON(addr, size)
#define VALGRIND_MEMPOOL_FREE(pool, addr) ((void) 0)
#define VALGRIND_MEMPOOL_CHANGE(pool, old, new, size) ASAN_UNPOISON(new, size)

#define RUNNING_ON_VALGRIND 0
#define VALGRIND_COUNT_ERRORS 0
#define VALGRIND_PRINTF(...) ((void) 0)
#define VALGRIND_DISABLE_ERROR_REPORTING ((void) 0)
#define VALGRIND_ENABLE_ERROR_REPORTING ((void) 0)

#endif							/* ASAN_MEMCHECK_H */
