"""tastytrade: its OAuth and REST interface, and the market data it has from dxFeed over dxLink.

Both are spoken by a thin client of our own over aiohttp, which the service has already, from the vendor's documents
(developer.tastytrade.com; the dxLink specification 1.0.2). The library most used for it was weighed and not taken: it
asks for time and sales without their past (`fromTime`), drops events that it cannot read, queues without bound, notices
no link that has fallen silent, knows its hosts as constants of a module, and takes 94 MB of memory, pandas with it. It
judges our fake of the vendor in the tests instead.
"""
