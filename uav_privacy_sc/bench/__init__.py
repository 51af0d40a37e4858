"""Speed and memory, as ratios to something measured in the same run: what a figure means hardly depends on the machine.

A benchmark is a generator that is registered under a name and yields rows::

    @benchmark("decode", "perception")
    def decode(meter: Meter) -> Iterator[Row]:
        timing = meter.compare(lambda: decoder(features), lambda: draw(features.shape))
        yield Row.slowdown("decoder", timing, at_most=1.5)
"""
