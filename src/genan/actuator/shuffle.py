"""A random order of the samples that needs no memory: which sample comes at place i is computed
when it is wanted.

A permutation of n numbers as a cipher: each number is written with two digits, and each digit in
turn is shifted by a hash of the other (a Feistel network). Two digits to bases a and b have a b >=
n values, at most about sqrt(n) too many; a number that lands among those is sent through again.
Sorting random keys would need memory for all of them, once for each member.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped, UInt32

_ROUNDS = 6


def shuffled(places: Int[Array, " m"], count: int, word: UInt32[Array, "2"]) -> Int[Array, " m"]:
    """The numbers (0 to ``count`` - 1) at these places of the permutation that ``word``, 64 random
    bits, selects."""
    a = math.isqrt(count - 1) + 1
    b = -(-count // a)
    walks = (
        3 if count > 10_000 else 12
    )  # each leaves less than one in sqrt(n) where it must not stay
    x = places.astype(jnp.uint32)
    x = _once(x, a, b, word)
    for _ in range(walks):
        x = jnp.where(x < count, x, _once(x, a, b, word))
    return jnp.minimum(x, count - 1).astype(places.dtype)


def _once(x: UInt32[Array, " m"], a: int, b: int, word: UInt32[Array, "2"]) -> UInt32[Array, " m"]:
    left, right = x // b, x % b
    for k in range(_ROUNDS):
        if k % 2:
            right = (right + _hash(left, word, k) % b) % b
        else:
            left = (left + _hash(right, word, k) % a) % a
    return left * b + right


def _hash(x: UInt32[Array, " m"], word: UInt32[Array, "2"], k: int) -> Shaped[Array, " m"]:
    """Murmur3's finalizer, keyed."""
    x = (x ^ word[0]) + jnp.uint32((k + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
    x = (x ^ x >> 13 ^ word[1]) * jnp.uint32(0xC2B2AE35)
    return x ^ x >> 16
