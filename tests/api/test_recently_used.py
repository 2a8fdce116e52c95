"""The cache of recently used entries has a memory limit and retains used entries."""

from outcry.http.recently_used import RecentlyUsed


def filled(most_bytes: int, count: int) -> RecentlyUsed[int, str]:
    """Create a cache with entries of ten bytes each, by ascending number."""
    cache = RecentlyUsed[int, str](most_bytes, lambda _key: 10)
    for number in range(count):
        cache.put(number, str(number))
    return cache


def test_all_entries_together_have_at_most_the_memory_given() -> None:
    cache = filled(100, 50)
    assert len(cache) <= 10
    assert cache.get(49) == "49"
    assert cache.get(0) is None


def test_an_entry_in_use_outlives_newer_ones_that_are_not() -> None:
    cache = filled(100, 1)
    for number in range(1, 50):
        assert cache.get(0) == "0"
        cache.put(number, str(number))
    assert cache.get(1) is None


def test_a_replaced_entry_is_counted_once() -> None:
    cache = filled(100, 5)
    for _ in range(20):
        cache.put(4, "new")
    assert [cache.get(number) for number in range(5)] == ["0", "1", "2", "3", "new"]


def test_a_dropped_entry_is_gone_and_frees_its_memory() -> None:
    cache = filled(100, 7)  # five of them in the old generation
    for number in (0, 6, 99):
        cache.drop(number)
    assert [cache.get(number) for number in (0, 1, 5, 6)] == [None, "1", "5", None]
    cache.clear()
    assert len(cache) == 0
    assert cache.get(1) is None
