"""Named bytes in a bucket: named by its address, and not reached before it is used."""

import pytest

from penstock.store.bucket import open_bucket


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "s3://bucket", "memory:///"])
def test_a_bucket_is_not_a_folder(url: str) -> None:
    assert open_bucket(url).folder is None


@pytest.mark.parametrize("url", ["nope://bucket", "s3:", "://"])
def test_an_address_of_nothing_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        open_bucket(url)
