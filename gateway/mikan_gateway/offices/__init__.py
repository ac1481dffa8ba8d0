"""Office objects of the cluster: seen by one watch, created on a first message, told of activity."""
