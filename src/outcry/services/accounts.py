"""Keys: making, finding, revoking. (Skeleton: the owner of this file fills it.)"""
