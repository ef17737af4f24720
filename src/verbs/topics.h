/*-------------------------------------------------------------------------
 *
 * topics.h
 *	  Topics: which queues want what is published.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TOPICS_H
#define FAIRQ_TOPICS_H

#include "storage/queue_catalog.h"
#include "verbs/enqueue.h"

#define TOPIC_MAX		255		/* bytes */

extern const char *topics_check(const text *topic, bool pattern);

extern void topics_subscribe(const text *topic, const text *queue);
extern bool topics_unsubscribe(const text *topic, const text *queue);

typedef void (*TopicCheck) (QueueInfo *info, void *arg);
extern int	topics_publish(const text *topic, const NewTask *task,
						   TopicCheck check, void *arg);

#endif							/* FAIRQ_TOPICS_H */
