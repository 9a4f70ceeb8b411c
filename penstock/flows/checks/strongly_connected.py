"""Which parts of a graph lead to each other, the last first: Tarjan's algorithm on a list."""

from collections.abc import Iterator, Sequence

Graph = Sequence[Sequence[int]]
"""Where each node leads to."""


def components(graph: Graph) -> Iterator[list[int]]:
    """Yield the nodes that lead to each other; what a component leads to comes before it."""
    found: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    is_done = [False] * len(graph)
    for root in range(len(graph)):
        work = [] if root in found else [(root, iter(graph[root]))]
        while work:
            node, ahead = work[-1]
            if node not in found:
                found[node] = lowest[node] = len(found)
                path.append(node)
            following = next(ahead, None)
            if following is not None:
                if following not in found:
                    work.append((following, iter(graph[following])))
                elif not is_done[following]:
                    lowest[node] = min(lowest[node], found[following])
                continue
            work.pop()
            if work:
                above = work[-1][0]
                lowest[above] = min(lowest[above], lowest[node])
            if lowest[node] == found[node]:
                component = list(_popped(path, node))
                for each in component:
                    is_done[each] = True
                yield component


def _popped(path: list[int], last: int) -> Iterator[int]:
    """Take nodes off the end of a path, up to one of them."""
    while (node := path.pop()) != last:
        yield node
    yield last
