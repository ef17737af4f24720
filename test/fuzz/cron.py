#!/usr/bin/env python3
"""Random cron expressions, zones and moments, against an oracle that asks each second.

    cron.py CONNINFO [SEED [EXAMPLES]]

The expression is written from sets of values that are drawn first, so that the oracle
has nothing to parse. It goes through the seconds after the moment and keeps in mind the
latest that the clock on the wall has shown: a second is a tick when the clock comes to show, or to
pass over, a time that is in the sets. Zones are Python's own reading of the same files.
Moments are near a change of the zone's clock, or anywhere in a century.

To see it fail: test/sql/cron.sql says how.
"""
import datetime
import random
import sys
import zoneinfo

import psycopg

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "Asia/Kathmandu",
         "Africa/Casablanca", "America/Caracas", "Pacific/Kwajalein", "Antarctica/Troll", "Asia/Pyongyang"]
FIELDS = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
NAMES = {4: "jan feb mar apr may jun jul aug sep oct nov dec".split(), 5: "sun mon tue wed thu fri sat".split()}
HORIZON = 2 * 86400
EPOCH = datetime.datetime(1970, 1, 1)


def value(random, field, number):
    if field in NAMES and random.random() < 0.3:
        name = NAMES[field][number - FIELDS[field][0]]
        return random.choice([name, name.upper()])
    if field == 5 and number == 0 and random.random() < 0.3:
        return "7"
    return random.choice(["%d", "%02d"]) % number


def part(random, field):
    """One of a list, and what it stands for."""
    low, high = FIELDS[field]
    kind = random.random()
    if kind < 0.5:
        number = random.randint(low, high)
        return value(random, field, number), {number}
    first, last = sorted(random.sample(range(low, high + 1), 2))
    step = random.randint(1, max(2, (high - low) // 2))
    if kind < 0.7:
        text = "%s-%s" % (first, value(random, field, last) if field != 5 else last)
        return text, set(range(first, last + 1))
    if kind < 0.85:
        return "%d-%d/%d" % (first, last, step), set(range(first, last + 1, step))
    return "%d/%d" % (first, step), set(range(first, high + 1, step))


def field_of(random, field, star):
    low, high = FIELDS[field]
    if random.random() < star:
        return "*", set(range(low, high + 1)), True
    if random.random() < 0.25:
        step = random.randint(1, high - low + 1)
        return "*/%d" % step, set(range(low, high + 1, step)), True
    parts = [part(random, field) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    return ",".join(text for text, _ in parts), set().union(*(values for _, values in parts)), False


def example(random):
    fields = [field_of(random, i, star) for i, star in enumerate([0.3, 0.5, 0.6, 0.7, 0.8, 0.7])]
    if random.random() < 0.5:
        fields[0] = (None, {0}, False)
    text = " ".join(text for text, _, _ in fields if text is not None)
    zone = zoneinfo.ZoneInfo(random.choice(ZONES))
    moment = int(random.uniform(-1e9, 3e9))
    changes = [t for t in range(moment, moment + 400 * 86400, 86400) if offset(zone, t) != offset(zone, t + 86400)]
    if changes and random.random() < 0.8:
        moment = random.choice(changes) + random.randint(-3600, 86400)
    return text, fields, zone, moment


def offset(zone, t):
    return int((datetime.datetime.fromtimestamp(t, datetime.timezone.utc).astimezone(zone)).utcoffset().total_seconds())


def in_fields(fields, local):
    clock = EPOCH + datetime.timedelta(seconds=local)
    numbers = [clock.second, clock.minute, clock.hour, clock.day, clock.month, clock.isoweekday() % 7]
    good = [number in values for number, (_, values, _) in zip(numbers, fields)]
    days = good[3] and good[5] if fields[3][2] or fields[5][2] else good[3] or good[5]
    return days and all(good[:3]) and good[4]


def is_day(fields, local):
    clock = EPOCH + datetime.timedelta(days=local // 86400)
    good = [clock.day in fields[3][1], clock.isoweekday() % 7 in fields[5][1]]
    days = all(good) if fields[3][2] or fields[5][2] else any(good)
    return days and clock.month in fields[4][1]


def oracle(fields, zone, moment):
    """The first tick, or None if there is none within the horizon."""
    # A clock is turned at a full minute, so the second before has shown the latest.
    first = moment - 86400
    shown = max(t + offset(zone, t) for t in range(first + 59 - first % 60, moment + 1, 60))
    shown = max(shown, moment + offset(zone, moment))
    for t in range(moment - 60, moment + 1):
        shown = max(shown, t + offset(zone, t))
    now_offset = offset(zone, moment)
    t = moment
    while t < moment + HORIZON:
        t += 1
        if t % 60 == 0:
            now_offset = offset(zone, t)
        local = t + now_offset
        if local <= shown:
            continue
        # Days without a tick are passed over at once, if the clock is not turned in them.
        for passed in range(shown + 1, local + 1):
            if is_day(fields, passed) and in_fields(fields, passed):
                return t
        shown = local
        if not is_day(fields, local) and local % 86400 == 0 and offset(zone, t + 86400 - 60) == now_offset and \
                offset(zone, t + 43200) == now_offset:
            t += 86400 - 60 - t % 60
            shown = t + now_offset
    return None


def main():
    conninfo = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10 ** 6)
    examples = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    print("# seed %d" % seed)
    source = random.Random(seed)
    found = 0
    with psycopg.connect(conninfo) as connection:
        for n in range(examples):
            text, fields, zone, moment = example(source)
            try:
                with connection.transaction():
                    answer, = connection.execute("SELECT extract(epoch FROM fairq_internal.cron_next(%s, %s, to_timestamp(%s), now()))::bigint",
                                                 (text, zone.key, moment)).fetchone()
            except psycopg.errors.InvalidParameterValue as error:
                # The only reason there may be.
                if "never comes" not in str(error):
                    raise
                answer = None
            expected = oracle(fields, zone, moment)
            found += expected is not None
            within = answer if answer is not None and answer <= moment + HORIZON else None
            if within != expected:
                print("not ok: seed %d, example %d: %r in %s after %d: %s, expected %s" % (seed, n, text, zone.key, moment, answer, expected))
                return 1
    print("ok: %d examples, %d with a tick within %d s" % (examples, found, HORIZON))
    return 0


if __name__ == "__main__":
    sys.exit(main())
