/*-------------------------------------------------------------------------
 *
 * address.c
 *	  The SQL type fairq.address: formats, comparison, hashing, accessors.
 *
 * Layer 0, no locking: every function works on its arguments alone.
 *
 * The text form is (bucket,block,slot), or (bucket,class:block,slot) if the
 * class is not 0.  The block is a decimal number such as 12 or -12.5.  It is
 * printed with as few digits as read back to the same 96 bits, which are at
 * most ten after the point.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/sortsupport.h"

#include "common/address.h"

/* Digits after the point that tell any two fractions of 32 bits apart. */
#define FRACTION_DIGITS		10

/* Digits after the point that are looked at in input. */
#define FRACTION_INPUT_DIGITS	18

/* "-9223372036854775808.0123456789" and the terminating zero. */
#define BLOCK_BUFFER_SIZE	(1 + 19 + 1 + FRACTION_DIGITS + 1)

/* A decimal number as read: (-1)^negative * (whole + fraction / 2^32). */
typedef struct Decimal
{
	bool		negative;
	bool		has_point;
	bool		overflow;		/* whole does not fit, and is not valid */
	uint64		whole;
	uint32		fraction;
} Decimal;

PG_FUNCTION_INFO_V1(fairq_address_in);
PG_FUNCTION_INFO_V1(fairq_address_out);
PG_FUNCTION_INFO_V1(fairq_address_recv);
PG_FUNCTION_INFO_V1(fairq_address_send);
PG_FUNCTION_INFO_V1(fairq_address_eq);
PG_FUNCTION_INFO_V1(fairq_address_ne);
PG_FUNCTION_INFO_V1(fairq_address_lt);
PG_FUNCTION_INFO_V1(fairq_address_le);
PG_FUNCTION_INFO_V1(fairq_address_gt);
PG_FUNCTION_INFO_V1(fairq_address_ge);
PG_FUNCTION_INFO_V1(fairq_address_cmp);
PG_FUNCTION_INFO_V1(fairq_address_sortsupport);
PG_FUNCTION_INFO_V1(fairq_address_hash);
PG_FUNCTION_INFO_V1(fairq_address_hash_extended);
PG_FUNCTION_INFO_V1(fairq_address_bucket);
PG_FUNCTION_INFO_V1(fairq_address_class);
PG_FUNCTION_INFO_V1(fairq_address_block);
PG_FUNCTION_INFO_V1(fairq_address_slot);

/*
 * The smallest address of a lane.
 */
void
address_lane_start(FairqAddress *a, int bucket, int class)
{
	Assert(bucket >= 0 && bucket < FAIRQ_MAX_BUCKETS);
	Assert(class >= 0 && class < FAIRQ_CLASSES);

	*a = (FairqAddress) {.block = PG_INT64_MIN,.bucket = (uint16) bucket,.class = (uint8) class};
}

/*
 * The bucket, of so many, of a block and a slot.
 *
 * In one block consecutive slots fall into consecutive buckets, so groups
 * that enqueue at the same time share the buckets evenly.  Where a block's
 * slots begin is a hash of the block, so the tasks of one group spread evenly
 * as well, whatever the step from one to the next.
 *
 * Rows on disk and all servers that share them depend on the result: neither
 * the hash nor anything else here may ever change.
 */
int
address_bucket_of(int64 block, uint32 fraction, uint64 slot, int buckets)
{
	uint64		hash;

	Assert(buckets >= 1 && buckets <= FAIRQ_MAX_BUCKETS);

	/* The finalizer of splitmix64; odd constants keep the steps one to one. */
	hash = (uint64) block * UINT64CONST(0x9e3779b97f4a7c15);
	hash ^= hash >> 32;
	hash += (uint64) fraction * UINT64CONST(0xd1342543de82ef95);
	hash = (hash ^ (hash >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	hash = (hash ^ (hash >> 27)) * UINT64CONST(0x94d049bb133111eb);
	hash ^= hash >> 31;

	/* The hash is reduced first: with a slot below 2^63 the sum cannot wrap. */
	return (int) ((hash % (uint64) buckets + slot) % (uint64) buckets);
}

/*
 * Write the block as the shortest decimal that reads back as the same.
 */
static void
write_block(const FairqAddress *address, char *buffer)
{
	uint64		whole;
	uint32		fraction = address->fraction;
	char	   *p = buffer;
	int			digits;
	uint64		power_of_5 = 1;

	/* To sign and magnitude: -1 + 1/4 is -(0 + 3/4), ~block is -block - 1. */
	if (address->block >= 0)
		whole = (uint64) address->block;
	else
	{
		*p++ = '-';
		whole = ~(uint64) address->block;
		if (fraction == 0)
			whole++;
		else
			fraction = (uint32) 0 - fraction;
	}
	p += pg_ulltoa_n(whole, p);

	for (digits = 1; fraction != 0 && digits <= FRACTION_DIGITS; digits++)
	{
		uint64		decimal;
		uint64		back;

		power_of_5 *= 5;

		/*
		 * The nearest decimal of so many digits, fraction * 10^digits / 2^32.
		 * Divided by 2^digits on both sides, the product fits into 64 bits.
		 */
		decimal = ((uint64) fraction * power_of_5 +
				   (UINT64CONST(1) << (31 - digits))) >> (32 - digits);

		/*
		 * It will do if it is less than half a unit away, decimal * 2^32 /
		 * 10^digits rounding to the fraction.  Once more divided by 2^digits.
		 */
		back = ((decimal << (33 - digits)) / power_of_5 + 1) >> 1;
		if (back == fraction || digits == FRACTION_DIGITS)
		{
			int			i;

			Assert(back == fraction);
			*p++ = '.';
			for (i = digits - 1; i >= 0; i--)
			{
				p[i] = (char) ('0' + decimal % 10);
				decimal /= 10;
			}
			p += digits;
			break;
		}
	}
	*p = '\0';
}

/*
 * Skip white space.
 */
static const char *
skip_space(const char *p)
{
	while (*p == ' ' || (*p >= '\t' && *p <= '\r'))
		p++;
	return p;
}

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Read a decimal number: an optional sign, digits, optionally a point and
 * more digits.  White space around it is skipped.
 *
 * The fraction is rounded to the nearest unit, which can carry into the whole
 * part.  Only the first 18 digits after the point count: that is hundreds of
 * millions of times finer than a unit, and as halves of a unit have 33 digits,
 * the nearest one is never in doubt.
 *
 * Returns where the number ends, or NULL if there is none.
 */
static const char *
read_decimal(const char *p, Decimal *number)
{
	memset(number, 0, sizeof(Decimal));

	p = skip_space(p);
	if (*p == '-' || *p == '+')
		number->negative = (*p++ == '-');
	if (!is_digit(*p))
		return NULL;
	for (; is_digit(*p); p++)
	{
		if (pg_mul_u64_overflow(number->whole, 10, &number->whole) ||
			pg_add_u64_overflow(number->whole, (uint64) (*p - '0'),
								&number->whole))
			number->overflow = true;
	}

	if (*p == '.')
	{
		uint64		digits = 0;
		uint64		one = 1;
		uint64		units = 0;
		int			bit;

		number->has_point = true;
		if (!is_digit(*++p))
			return NULL;
		for (bit = 0; is_digit(*p); p++)
		{
			if (bit++ < FRACTION_INPUT_DIGITS)
			{
				digits = digits * 10 + (uint64) (*p - '0');
				one *= 10;
			}
		}

		/* digits / one in binary, with one bit more than there will be. */
		for (bit = 0; bit < 33; bit++)
		{
			digits *= 2;
			units *= 2;
			if (digits >= one)
			{
				digits -= one;
				units++;
			}
		}
		units = (units + 1) >> 1;
		number->fraction = (uint32) units;
		if (pg_add_u64_overflow(number->whole, units >> 32, &number->whole))
			number->overflow = true;
	}
	return skip_space(p);
}

/* Is a decimal number one from 0 to maximum? */
static bool
in_range(const Decimal *number, uint64 maximum)
{
	Assert(!number->has_point);
	return !number->overflow && number->whole <= maximum &&
		!(number->negative && number->whole != 0);
}

/*
 * Read a block out of a decimal number.  Returns false if it is out of range.
 */
static bool
block_number(const Decimal *number, FairqAddress *address)
{
	/* -(whole + fraction) is -(whole + 1) + (1 - fraction). */
	uint64		borrow = number->negative && number->fraction != 0;
	uint64		whole = number->whole + borrow;

	if (number->overflow || number->whole > (uint64) PG_INT64_MAX + number->negative - borrow)
		return false;
	address->block = (int64) (number->negative ? (uint64) 0 - whole : whole);
	address->fraction = number->negative ? (uint32) 0 - number->fraction : number->fraction;
	return true;
}

/*
 * Read an address.  Returns false if it is none, without an error: *detail
 * says what is out of range; NULL: it is not written as one.
 */
static bool
read_address(const char *text, FairqAddress *address, const char **detail)
{
	const char *p = skip_space(text);
	Decimal		bucket;
	Decimal		class = {0};
	Decimal		block;
	Decimal		slot;

	*detail = NULL;

	/* The syntax first: what is no address is not out of range either. */
	if (*p++ != '(' ||
		(p = read_decimal(p, &bucket)) == NULL || *p++ != ',' ||
		(p = read_decimal(p, &block)) == NULL)
		return false;
	if (*p == ':')
	{
		class = block;
		if ((p = read_decimal(p + 1, &block)) == NULL)
			return false;
	}
	if (*p++ != ',' ||
		(p = read_decimal(p, &slot)) == NULL || *p++ != ')' ||
		*skip_space(p) != '\0' ||
		bucket.has_point || class.has_point || slot.has_point)
		return false;

	memset(address, 0, sizeof(FairqAddress));
	if (!in_range(&bucket, FAIRQ_MAX_BUCKETS - 1))
		*detail = psprintf("The bucket must be from 0 to %d.", FAIRQ_MAX_BUCKETS - 1);
	else if (!in_range(&class, FAIRQ_CLASSES - 1))
		*detail = psprintf("The class must be from 0 to %d.", FAIRQ_CLASSES - 1);
	else if (!block_number(&block, address))
		*detail = "The block must be at least -2^63 and less than 2^63.";
	else if (!in_range(&slot, (uint64) PG_INT64_MAX))
		*detail = psprintf("The slot must be from 0 to " INT64_FORMAT ".", PG_INT64_MAX);
	address->bucket = (uint16) bucket.whole;
	address->class = (uint8) class.whole;
	address->slot = slot.whole;
	return *detail == NULL;
}

/*
 * fairq_internal.address_in(cstring) returns fairq.address
 *
 * Reads the text form.
 */
Datum
fairq_address_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	FairqAddress *address = (FairqAddress *) palloc(sizeof(FairqAddress));
	const char *detail;

	if (read_address(text, address, &detail))
		PG_RETURN_FAIRQADDRESS_P(address);
	if (detail == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s: \"%s\"",
						"fairq.address", text),
				 errhint("An address is written as (bucket,block,slot) or (bucket,class:block,slot).")));
	else
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value \"%s\" is out of range for type %s",
						text, "fairq.address"),
				 errdetail_internal("%s", detail)));
	PG_RETURN_NULL();			/* not reached */
}

/*
 * fairq_internal.address_out(fairq.address) returns cstring
 *
 * Writes the text form.
 */
Datum
fairq_address_out(PG_FUNCTION_ARGS)
{
	FairqAddress *address = PG_GETARG_FAIRQADDRESS_P(0);
	char		block[BLOCK_BUFFER_SIZE];

	write_block(address, block);
	if (address->class == 0)
		PG_RETURN_CSTRING(psprintf("(%u,%s," UINT64_FORMAT ")",
								   address->bucket, block, address->slot));
	PG_RETURN_CSTRING(psprintf("(%u,%u:%s," UINT64_FORMAT ")",
							   address->bucket, address->class, block,
							   address->slot));
}

/*
 * fairq_internal.address_recv(internal) returns fairq.address
 *
 * Reads the binary form, which see fairq_address_send().
 */
Datum
fairq_address_recv(PG_FUNCTION_ARGS)
{
	StringInfo	message = (StringInfo) PG_GETARG_POINTER(0);
	FairqAddress *address = (FairqAddress *) palloc0(sizeof(FairqAddress));
	unsigned int bucket = pq_getmsgint(message, 2);
	unsigned int class = pq_getmsgint(message, 1);

	address->block = pq_getmsgint64(message);
	address->fraction = pq_getmsgint(message, 4);
	address->slot = (uint64) pq_getmsgint64(message);

	if (bucket >= FAIRQ_MAX_BUCKETS || class >= FAIRQ_CLASSES ||
		address->slot > (uint64) PG_INT64_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary data for type %s", "fairq.address"),
				 errdetail("Bucket %u, class %u or slot " UINT64_FORMAT " is out of range.",
						   bucket, class, address->slot)));
	address->bucket = (uint16) bucket;
	address->class = (uint8) class;
	PG_RETURN_FAIRQADDRESS_P(address);
}

/*
 * fairq_internal.address_send(fairq.address) returns bytea
 *
 * Writes the binary form, 23 bytes in network byte order: bucket (2), class
 * (1), block (8), fraction of the block (4) and slot (8).
 */
Datum
fairq_address_send(PG_FUNCTION_ARGS)
{
	FairqAddress *address = PG_GETARG_FAIRQADDRESS_P(0);
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendint16(&message, address->bucket);
	pq_sendint8(&message, address->class);
	pq_sendint64(&message, (uint64) address->block);
	pq_sendint32(&message, address->fraction);
	pq_sendint64(&message, address->slot);
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

/* fairq_internal.address_eq(fairq.address, fairq.address) returns boolean */
Datum
fairq_address_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
								   PG_GETARG_FAIRQADDRESS_P(1)) == 0);
}

/* fairq_internal.address_ne(fairq.address, fairq.address) returns boolean */
Datum
fairq_address_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
								   PG_GETARG_FAIRQADDRESS_P(1)) != 0);
}

/* fairq_internal.address_lt(fairq.address, fairq.address) returns boolean */
Datum
fairq_address_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
								   PG_GETARG_FAIRQADDRESS_P(1)) < 0);
}

/* fairq_internal.address_le(fairq.address, fairq.address) returns boolean */
Datum
fairq_address_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
								   PG_GETARG_FAIRQADDRESS_P(1)) <= 0);
}

/* fairq_internal.address_gt(fairq.address, fairq.address) returns boolean */
Datum
fairq_address_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
								   PG_GETARG_FAIRQADDRESS_P(1)) > 0);
}

/* fairq_internal.address_ge(fairq.address, fairq.address) returns boolean */
Datum
fairq_address_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
								   PG_GETARG_FAIRQADDRESS_P(1)) >= 0);
}

/*
 * fairq_internal.address_cmp(fairq.address, fairq.address) returns integer
 *
 * Support function 1 of the btree operator class.
 */
Datum
fairq_address_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(address_compare(PG_GETARG_FAIRQADDRESS_P(0),
									PG_GETARG_FAIRQADDRESS_P(1)));
}

/*
 * Compare two addresses while sorting.
 */
static int
address_sort_compare(Datum a, Datum b, SortSupport ssup)
{
	return address_compare(DatumGetFairqAddressP(a), DatumGetFairqAddressP(b));
}

/*
 * fairq_internal.address_sortsupport(internal) returns void
 *
 * Support function 2 of the btree operator class: sorting, as when an index
 * is built, calls the comparison without the function manager in between.
 */
Datum
fairq_address_sortsupport(PG_FUNCTION_ARGS)
{
	SortSupport ssup = (SortSupport) PG_GETARG_POINTER(0);

	ssup->comparator = address_sort_compare;
	PG_RETURN_VOID();
}

/*
 * fairq_internal.address_hash(fairq.address) returns integer
 *
 * Support function 1 of the hash operator class.
 */
Datum
fairq_address_hash(PG_FUNCTION_ARGS)
{
	return hash_any((unsigned char *) PG_GETARG_FAIRQADDRESS_P(0),
					sizeof(FairqAddress));
}

/*
 * fairq_internal.address_hash_extended(fairq.address, bigint) returns bigint
 *
 * Support function 2 of the hash operator class.
 */
Datum
fairq_address_hash_extended(PG_FUNCTION_ARGS)
{
	return hash_any_extended((unsigned char *) PG_GETARG_FAIRQADDRESS_P(0),
							 sizeof(FairqAddress),
							 (uint64) PG_GETARG_INT64(1));
}

/* fairq.bucket(fairq.address) returns integer */
Datum
fairq_address_bucket(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_GETARG_FAIRQADDRESS_P(0)->bucket);
}

/* fairq.class(fairq.address) returns integer */
Datum
fairq_address_class(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_GETARG_FAIRQADDRESS_P(0)->class);
}

/*
 * The block of an address as a numeric: the number that the text form shows.
 */
Datum
address_block(const FairqAddress *address)
{
	char		block[BLOCK_BUFFER_SIZE];

	write_block(address, block);
	return DirectFunctionCall3(numeric_in, CStringGetDatum(block),
							   ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/*
 * Read a block as address_block() writes it.  Returns false if it is none.
 */
bool
address_read_block(const char *text, FairqAddress *address)
{
	Decimal		number;
	const char *end = read_decimal(text, &number);

	return end != NULL && *end == '\0' && block_number(&number, address);
}

/* fairq.block(fairq.address) returns numeric */
Datum
fairq_address_block(PG_FUNCTION_ARGS)
{
	return address_block(PG_GETARG_FAIRQADDRESS_P(0));
}

/* fairq.slot(fairq.address) returns bigint */
Datum
fairq_address_slot(PG_FUNCTION_ARGS)
{
	uint64		slot = PG_GETARG_FAIRQADDRESS_P(0)->slot;

	/* Only the ends of lanes have such a slot, and no row ever does. */
	if (slot > (uint64) PG_INT64_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value \"" UINT64_FORMAT "\" is out of range for type %s",
						slot, "bigint")));
	PG_RETURN_INT64((int64) slot);
}
