class SimpleSpanProcessor:
    def __init__(self, exporter):
        self.exporter = exporter

    def on_end(self, span):
        self.exporter.spans.append(span)
