"""Live feed of tastytrade: its OAuth and REST interface, and market data of dxFeed over dxLink.

Both use a small client of our own over aiohttp, written from the vendor's documents (developer.tastytrade.com; dxLink
specification 1.0.2). We do not use the common `tastytrade` library in the service. It requests time and sales without
their history (`fromTime`), drops unreadable events, has unbounded queues, does not detect a silent connection, has
fixed hosts, and needs 94 MB of memory with pandas. In the tests it checks our fake of the vendor.
"""
