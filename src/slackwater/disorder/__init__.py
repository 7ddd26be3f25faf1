"""From arrival order to event-time order: clock guard, slack buffers, synchronizer, watermark, slack controllers."""
