"""A cost model improves where it is used: it says which plans to simulate, and learns on from what came out."""
