package headrace.yarn.rm;

/**
 * How patient the plug-in is, in milliseconds.
 *
 * @param tick between two looks at what has changed in the ResourceManager
 * @param gather how long victims are collected before the manager is asked about all of them
 * @param poll how long the manager may hold a question for changes
 * @param retry before something that has failed is tried again
 * @param parked the least time that a container stays put aside; it doubles each time that it is soon put aside again
 * @param soon what soon is
 * @param ask how long the scheduler has to serve an ask for room that is there
 * @param contested how long room is left to others who are more urgent and do not take it
 * @param silent how long nothing may be heard of an order
 * @param again before a container that did not go on is told so again; it doubles each time
 * @param spare how long a master is passed over whose containers are put aside
 * @param undelivered how long a container keeps the room that it has been given when the manager cannot be told
 * @param prices how long the manager may take to name prices, while victims wait
 */
record Timing(long tick, long gather, long poll, long retry, long parked, long soon, long ask, long contested,
            long silent, long undelivered, long again, long spare, long prices) {

    static final Timing STANDARD =
        new Timing(200, 20, 10_000, 1000, 2000, 60_000, 5000, 30_000, 30_000, 60_000, 20_000, 60_000, 500);
}
