"""Live feed of tastytrade: its OAuth and REST interface, and market data of dxFeed over dxLink.

Both use our own small client over aiohttp, written from the vendor's documents (developer.tastytrade.com; dxLink
specification 1.0.2). The service does not use the common `tastytrade` library, for these reasons. The library requests
time and sales without their history (`fromTime`) and drops unreadable events. It has unbounded queues and fixed hosts,
and does not detect a stalled connection. With pandas it needs 94 MB of memory. The tests use it to verify our fake
vendor.
"""
