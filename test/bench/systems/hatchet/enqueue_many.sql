\set g random(0, 9) * 100
\startpipeline
@ENQUEUE_100@
\endpipeline
