import os

import system


class Peer(system.peer("hatchet")):
    title = "the same with the two partial indexes it lacks"
    notes = "as hatchet, but that a claim need not look at the whole backlog"

    def __init__(self, name, bench):
        super().__init__(name, bench)
        self.own = self.directory
        self.directory = os.path.join(os.path.dirname(self.directory), "hatchet")

    def setup(self):
        super().setup()
        self.cluster.sql_file(os.path.join(self.own, "indexes.sql"))
