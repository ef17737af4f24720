"""What groups and their subgroups may have, in the model of a queue (model.py): weights,
limits, pauses, and the queue's defaults at both levels.

Whose it is says a pair: a group and None, or a group and one of its subgroups. Tasks
without a subgroup are of the one with the empty key.
"""

NOTHING = None, None


class Levels:
    def __init__(self):
        self.subgroups = False          # groups are divided
        self.given = {}                 # pairs: (weight, max_leased) that are theirs, None: the default
        self.stopped = set()            # pairs that are paused
        self.defaults = [(1, 0), (1, 0)]    # the same of groups and of subgroups; 0: no limit
        self.ever_stopped = set()       # pairs that were, or had a limit: their tasks come about in order only
        self.ever_by_default = [False, False]

    @staticmethod
    def level(whose):
        return int(whose[1] is not None)

    def whose(self, row):
        """Who may stop a task."""
        return [(row.group, None)] + [(row.group, row.subgroup or "")] * self.subgroups

    def in_force(self, whose):
        """Weight and limit; 0: none."""
        given = self.given.get(whose, NOTHING)
        return tuple(default if value is None else value for value, default in zip(given, self.defaults[self.level(whose)]))

    def give(self, whose, weight, max_leased):
        """None leaves what was given."""
        given = self.given.get(whose, NOTHING)
        self.given[whose] = given[0] if weight is None else weight, given[1] if max_leased is None else max_leased
        if max_leased:
            self.ever_stopped.add(whose)
        self.give_up_if_void(whose)

    def give_defaults(self, level, weight, max_leased):
        was = self.defaults[level]
        self.defaults[level] = was[0] if weight is None else weight, was[1] if max_leased is None else max_leased
        self.ever_by_default[level] |= bool(max_leased)

    def pause_or_resume(self, whose):
        self.stopped ^= {whose}
        self.ever_stopped.add(whose)
        self.give_up_if_void(whose)

    def give_up_if_void(self, whose):
        """What says nothing but the defaults is not kept."""
        if whose not in self.stopped and all(
                value in (None, default) for value, default in zip(self.given.get(whose, NOTHING), self.defaults[self.level(whose)])):
            self.given.pop(whose, None)

    def has_own(self, whose):
        return whose in self.stopped or whose in self.given

    def take_away(self, whose):
        self.given.pop(whose, None)
        self.stopped.discard(whose)

    def ever_limited(self, row=None):
        """Whether a task was, or any, by its group or its subgroup."""
        if row is None:
            return bool(self.ever_stopped) or any(self.ever_by_default)
        return any(whose in self.ever_stopped or self.ever_by_default[self.level(whose)] for whose in self.whose(row))

    def room(self, whose):
        """How many of a group or a subgroup may be claimed."""
        limit = self.in_force(whose)[1]
        leased = sum(t.lease is not None and whose in self.whose(t.committed or t.row) for t in self.tasks.values())
        return 0 if whose in self.stopped else max(limit - leased, 0) if limit else 10 ** 9
