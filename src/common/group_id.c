/*-------------------------------------------------------------------------
 *
 * group_id.c
 *	  What names a group whose key is too long to be shown.
 *
 * SipHash-2-4 of 128 bits (Aumasson, Bernstein 2012) over the bytes of the key.
 * The hashes of group_name.h do not serve: one is new at each start, so that
 * keys that collide in the table of groups cannot be looked for, and the other
 * alone is short.  This one is the same for ever and everywhere, so its own key
 * is no secret: it is the one that the published test vectors have, and
 *
 *     openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f \
 *         -macopt size:16 -in FILE SIPHASH
 *
 * says the same.  It neither allocates nor fails, so it may be called under our
 * locks, which SHA-2 of the server may not; and of a key of 64 bytes it takes
 * a tenth of the instructions of that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"

#include "common/group_name.h"

#ifdef WORDS_BIGENDIAN
#define LITTLE_ENDIAN_64(x)	pg_bswap64(x)
#else
#define LITTLE_ENDIAN_64(x)	(x)
#endif

static inline uint64
rotate_left(uint64 word, int n)
{
	return (word << n) | (word >> (64 - n));
}

static inline void
rounds(uint64 v[4], int n)
{
	while (n-- > 0)
	{
		v[0] += v[1];
		v[1] = rotate_left(v[1], 13) ^ v[0];
		v[0] = rotate_left(v[0], 32);
		v[2] += v[3];
		v[3] = rotate_left(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate_left(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate_left(v[1], 17) ^ v[2];
		v[2] = rotate_left(v[2], 32);
	}
}

static inline void
compress(uint64 v[4], uint64 word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

/* What is in v after the last rounds, as bytes. */
static inline void
put_half(const uint64 v[4], unsigned char *to)
{
	uint64		half = LITTLE_ENDIAN_64(v[0] ^ v[1] ^ v[2] ^ v[3]);

	memcpy(to, &half, sizeof(half));
}

void
group_id(const char *key, int len, pg_uuid_t *id)
{
	const uint64 k0 = UINT64CONST(0x0706050403020100);
	const uint64 k1 = UINT64CONST(0x0f0e0d0c0b0a0908);
	uint64		v[4] = {
		UINT64CONST(0x736f6d6570736575) ^ k0,
		UINT64CONST(0x646f72616e646f6d) ^ k1 ^ 0xee,
		UINT64CONST(0x6c7967656e657261) ^ k0,
		UINT64CONST(0x7465646279746573) ^ k1
	};
	uint64		word;
	int			i;

	Assert(len >= 0);
	for (i = 0; i + 8 <= len; i += 8)
	{
		memcpy(&word, key + i, 8);
		compress(v, LITTLE_ENDIAN_64(word));
	}
	word = (uint64) len << 56;
	for (int rest = 0; i + rest < len; rest++)
		word |= (uint64) (unsigned char) key[i + rest] << (8 * rest);
	compress(v, word);

	v[2] ^= 0xee;
	rounds(v, 4);
	put_half(v, id->data);
	v[1] ^= 0xdd;
	rounds(v, 4);
	put_half(v, id->data + 8);
}
