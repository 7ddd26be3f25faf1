"""From arrival order to event-time order: admission, slack buffers, synchronizer, frontier, slack controllers."""
