"""Request limits that several processes share: one process counts the requests of a key, others ask it.

Terms: a *subject* is what a limit applies to, such as an API key. A *pass* is a request that the limit allowed.
Subjects are divided into partitions, and each partition has one *owner* process, which counts. A *replica* is a process
that receives requests and applies the limits. A *lease* is a number of requests that a replica may allow without asking
the owner. An *epoch* is one ownership term of a partition.
"""
