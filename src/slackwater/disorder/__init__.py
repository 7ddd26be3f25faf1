"""From arrival order to event-time order: admission, slack buffers, synchronizer, watermark, slack controllers."""
