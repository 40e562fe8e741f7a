"""When to call the strong drafter: TreeGraft's distilled scheduler and the value system that it learns from."""
