"""What the relay of a table knows of its outbox: which lines have rows, whose turn it is, and how far it has read."""

import collections
import itertools
import time

from connecting import LONGEST_BACKOFF

CHUNK = 50000           # rows that one statement looks at
UNSETTLED = 10000       # ids, of which a line is read from the lowest: more cost too much, when a transaction is open for long
SWEEP = 30              # seconds from one reading of all that there is to the next, at least
PAUSE = 0.05            # seconds until a row is tried again that the target cannot take just now, at first
RESTS = 30, 300         # seconds that a queue rests when a row of it takes longer than --timeout: at first, and after several times
RARELY = 20             # or that many times as long as the row has taken, where that is more


class Lines:
    """Lines that have rows, in turn, each with the lowest id that it may have; those that must wait, until when."""

    def __init__(self, slow=()):
        self.turn = {}
        self.paused = {}    # line: (until, after how long, lowest id)
        self.delays = {}    # of lines that were paused and have not moved since
        self.slow = dict(slow)  # queue: (until when it rests, until when its rows go one by one, for how long it rests)

    def found(self, line, first):
        if line in self.paused:
            until, delay, lowest = self.paused[line]
            self.paused[line] = (until, delay, min(lowest, first))
        else:
            self.turn[line] = min(first, self.turn.get(line, first))

    def resume(self, now):
        for line in [line for line, (until, _, _) in self.paused.items() if until <= now]:
            self.turn[line] = self.paused.pop(line)[2]

    def next(self, most, now):
        """The first lines in turn, and how many rows of each."""
        lines = []
        for line, first in list(itertools.islice(self.turn.items(), most)):
            rests, alone, _ = self.slow.get(line[0], (0, 0, 0))
            if now < rests:
                self.turn.pop(line)
                self.paused[line] = (rests, 0, first)
            elif now >= alone:
                self.slow.pop(line[0], None)
                lines.append((line, first))
            elif lines:
                break
            else:
                return [(line, first)], 1
        return lines, max(1, most // max(1, len(lines)))

    def rest(self, line, first, now, spent):
        """Its first row is not to be had. Its queue rests, longer each time, until it takes a twentieth of the time. The line
        rests twice as long, so that others of the queue go on in between."""
        _, _, before = self.slow.get(line[0], (0, 0, RESTS[0] / 2))
        seconds = min(2 * before, max(RESTS[1], RARELY * spent))
        self.slow[line[0]] = (now + seconds, now + 4 * seconds, seconds)
        self.turn.pop(line, None)
        self.paused[line] = (now + 2 * seconds, 0, first)
        return seconds

    def served(self, line, first):
        """It may have more, and goes to the end."""
        self.delays.pop(line, None)
        self.turn.pop(line, None)
        self.turn[line] = first

    def is_empty(self, line):
        self.delays.pop(line, None)
        self.turn.pop(line, None)

    def pause(self, line, first, now):
        """Longer each time."""
        delay = self.delays[line] = min(LONGEST_BACKOFF, self.delays.get(line, PAUSE / 2) * 2)
        self.turn.pop(line, None)
        self.paused[line] = (now + delay, delay, first)


class Reading:
    """How far the ids of the outbox have been read, and how far that is settled."""

    def __init__(self):
        self.seen = self.settled = 0
        self.marks = collections.deque()    # (seen, number of a transaction that began then)
        self.again = None                   # the place of a reading that is under way
        self.end = self.oldest = 0          # where that will end, the oldest transaction when it began
        self.spent = 0.0                    # on it
        self.due = self.sweep_due = 0.0
        self.is_sweep = False

    def begin(self, now):
        if self.again is None and now >= self.due:
            self.is_sweep = now >= self.sweep_due
            self.again, self.end, self.spent = 0 if self.is_sweep else self.settled, self.seen, 0.0
            return True
        return False

    def read_again(self, part, seconds):
        """A part was read again. It takes a tenth of the time at the most, and a sweep a hundredth."""
        self.spent += seconds
        if part["rows"] == CHUNK:
            self.again = part["last"]
            return
        while self.marks and self.marks[0][0] <= self.end and self.marks[0][1] <= self.oldest:
            self.settled = self.marks.popleft()[0]
        now = time.monotonic()
        if self.is_sweep:
            self.sweep_due = now + max(SWEEP, 100 * self.spent)
        self.due = now + 10 * self.spent
        self.again = None

    def lowest(self, first):
        """From which id on a line is read whose lowest known one is this: a lower one may have become visible just now,
        and must not come after one that was written when it was there."""
        return min(first, self.settled + 1) if self.seen - self.settled <= UNSETTLED else first

    def mark(self, transaction):
        if self.seen > (self.marks[-1][0] if self.marks else self.settled):
            self.marks.append((self.seen, transaction))
