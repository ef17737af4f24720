class InMemorySpanExporter:
    def __init__(self):
        self.spans = []

    def get_finished_spans(self):
        return tuple(self.spans)
